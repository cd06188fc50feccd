"""Rulesets for common needs, the patterns that they are made of, and how rulesets combine.

==============  ========================================================================================
``SECRETS``     allows all, but denies credentials and the system tree to every path operation
``DEFAULT``     reads all but credentials; writes beneath the work directory only; asks before a command
``PERMISSIVE``  allows all, but denies credentials, writes to the system tree and dangerous commands
``READONLY``    reads all but credentials; denies writes, edits and commands
``STRICT``      reads beneath the work directory; asks before a write there and before a command; denies
                the rest
==============  ========================================================================================

Dangerous commands are denied by each of them but ``SECRETS``, which is about files. :func:`preset_table` has
the verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import frozen

from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.combining import combine
from sandbox_kit.rules.dangerous import DANGEROUS_COMMANDS
from sandbox_kit.rules.ruleset import OPERATIONS, OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Action, Operation

__all__ = [
    "DANGEROUS_COMMANDS",
    "DEFAULT",
    "NOT_SECRET_PATTERNS",
    "PERMISSIVE",
    "PRESETS",
    "READONLY",
    "SECRETS",
    "SECRET_PATTERNS",
    "STRICT",
    "SYSTEM_PATTERNS",
    "PresetRow",
    "combine",
    "preset_table",
]

NOT_SECRET_PATTERNS: tuple[str, ...] = (
    "**/.env.{example,sample,template,dist}",
    "**/cacert.pem",
)
"""Public files with the name of a secret one; allowed before :data:`SECRET_PATTERNS` are denied."""

SECRET_PATTERNS: tuple[str, ...] = (
    *("**/.env", "**/.env.*", "**/.envrc", "**/secrets.{json,yaml,yml,toml,ini,env}"),
    *("**/*.pem", "**/*.key", "**/*.p12", "**/*.pfx", "**/*.jks", "**/*.keystore", "**/*.ppk", "**/*.kdbx"),
    *("**/id_{rsa,dsa,ecdsa,ed25519,ecdsa_sk,ed25519_sk}", "**/.ssh", "**/.gnupg"),
    *("**/.aws", "**/.azure", "**/.config/gcloud", "**/.config/gh", "**/.boto", "**/.s3cfg", "**/.oci"),
    *("**/.kube", "**/.docker/config.json", "**/.dockercfg", "**/.vault-token", "**/credentials.tfrc.json"),
    *("**/.netrc", "**/_netrc", "**/.git-credentials", "**/.npmrc", "**/.pypirc", "**/.pgpass", "**/.my.cnf"),
    *("**/.cargo/credentials{,.toml}", "**/.gem/credentials", "**/.m2/settings.xml", "**/.htpasswd"),
    *("**/credentials.json", "**/client_secret*.json", "**/service-account*.json", "**/.huggingface/token"),
    *("**/.cache/huggingface/token", "**/.bash_history", "**/.zsh_history", "**/.python_history"),
    *("/etc/{,g}shadow{,-,*}", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/run/secrets"),
    *("/var/run/secrets", "/proc/**/environ", "/proc/**/mem", "/proc/**/fd", "/proc/**/root", "/proc/kcore"),
)
"""Credentials, by the names that their programs give them; each also covers all beneath it."""

SYSTEM_PATTERNS: tuple[str, ...] = (
    *("/etc/**", "/usr/**", "/bin/**", "/sbin/**", "/lib/**", "/lib32/**", "/lib64/**", "/libx32/**", "/boot/**"),
    *("/dev/**", "/proc/**", "/sys/**", "/run/**", "/var/**", "/root/**", "/opt/**"),
    *("/System/**", "/Library/**", "/private/etc/**", "/private/var/**"),
)
"""The system tree of Linux and macOS."""

_HARMLESS_DEVICES = ("/dev/{null,zero,full,random,urandom,tty,stdin,stdout,stderr}",)
_WORKSPACE = ("./**",)


def _rules(action: Action, patterns: Iterable[str], description: str) -> list[PermissionRule]:
    return [PermissionRule(pattern, action, description) for pattern in patterns]


def _in_workspace(action: Action) -> list[PermissionRule]:
    """The rules of a write: secrets denied, *action* for the rest of the workspace, the exceptions in it too."""
    exceptions = [f"./{pattern}" for pattern in NOT_SECRET_PATTERNS]
    return [
        *_rules(action, exceptions, "no secret, despite its name"),
        *_rules("deny", SECRET_PATTERNS, "credentials"),
        *_rules(action, _WORKSPACE, "the workspace, wherever it lies"),
    ]


_NO_SECRETS = [
    *_rules("allow", NOT_SECRET_PATTERNS, "no secret, despite its name"),
    *_rules("deny", SECRET_PATTERNS, "credentials"),
]
_DEVICES = _rules("allow", _HARMLESS_DEVICES, "devices that hold nothing")
_NO_SYSTEM = [
    *_DEVICES,
    *_rules("allow", ("/etc/alternatives/**",), "links to programs"),
    *_rules("deny", SYSTEM_PATTERNS, "the system tree"),
]
_NOT_DANGEROUS = [PermissionRule(pattern, "deny", "dangerous", command=True) for pattern in DANGEROUS_COMMANDS]


def _ruleset(
    reads: OperationPermissions, writes: OperationPermissions, execute: OperationPermissions, default: Action = "allow"
) -> PermissionRuleset:
    return PermissionRuleset(
        default, read=reads, ls=reads, glob=reads, grep=reads, write=writes, edit=writes, execute=execute
    )


SECRETS = _ruleset(
    reads=OperationPermissions(
        "allow", [*_NO_SECRETS, *_rules("allow", _WORKSPACE, "the workspace, wherever it lies"), *_NO_SYSTEM]
    ),
    writes=OperationPermissions("allow", [*_in_workspace("allow"), *_NO_SYSTEM]),
    execute=OperationPermissions("allow"),
)

DEFAULT = _ruleset(
    reads=OperationPermissions("allow", _NO_SECRETS),
    writes=OperationPermissions("deny", [*_in_workspace("allow"), *_DEVICES]),
    execute=OperationPermissions("ask", _NOT_DANGEROUS),
)

PERMISSIVE = _ruleset(
    reads=OperationPermissions("allow", _NO_SECRETS),
    writes=OperationPermissions("allow", [*_in_workspace("allow"), *_NO_SYSTEM]),
    execute=OperationPermissions("allow", _NOT_DANGEROUS),
)

READONLY = _ruleset(
    reads=OperationPermissions("allow", _NO_SECRETS),
    writes=OperationPermissions("deny"),
    execute=OperationPermissions("deny"),
)

STRICT = _ruleset(
    reads=OperationPermissions("deny", _in_workspace("allow")),
    writes=OperationPermissions("deny", _in_workspace("ask")),
    execute=OperationPermissions("ask", _NOT_DANGEROUS),
    default="deny",
)

PRESETS: Mapping[str, PermissionRuleset] = MappingProxyType(
    {"default": DEFAULT, "permissive": PERMISSIVE, "readonly": READONLY, "secrets": SECRETS, "strict": STRICT}
)
"""The presets by name."""


@frozen
class PresetRow:
    """What a preset says of one operation.

    Attributes:
        preset: its name, in lower case.
        operation: the operation.
        default: the verdict where no rule matches.
        workspace: on a file of the workspace; of a command, on a harmless one.
        secret: on a credential in the workspace; None for a command.
        system: on a file of the system tree; of a command, on one that removes it.
    """

    preset: str
    operation: Operation
    default: Action
    workspace: Action
    secret: Action | None
    system: Action


def preset_table() -> tuple[PresetRow, ...]:
    """The verdicts of every preset on every operation, in the order of their names and of the operations."""
    return tuple(_row(name, ruleset, operation) for name, ruleset in PRESETS.items() for operation in OPERATIONS)


def _row(preset: str, ruleset: PermissionRuleset, operation: Operation) -> PresetRow:
    checker = PermissionChecker(ruleset, "/var/lib/workspace")
    default = ruleset.default_for(operation)
    if operation == "execute":
        harmless, dangerous = (checker.verdict(operation, line).action for line in ("make test", "rm -rf /usr"))
        return PresetRow(preset, operation, default, harmless, None, dangerous)
    verdicts = [checker.verdict(operation, name).action for name in ("src/main.py", ".env", "/usr/lib/os-release")]
    return PresetRow(preset, operation, default, *verdicts)
