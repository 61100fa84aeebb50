"""Each kind of ConfigurationError, with the id of its page.

A kind is what needs the same remedy, not what is raised at one place: `raise UnknownKey(...)` says which page explains
it. The pages stand in `catalogue/errors.md`; `framework-app explain ID` prints them. An id never changes and is never
used again, and a house test compares the ids here with the pages.
"""

from __future__ import annotations

from framework.errors import ConfigurationError

# S, settings: files, variables, options.


class UnknownKey(ConfigurationError):
    id = "FA-S001"


class WrongValue(ConfigurationError):
    id = "FA-S002"


class NotYaml(ConfigurationError):
    id = "FA-S003"


class VariableMissing(ConfigurationError):
    id = "FA-S004"


class FileUnreadable(ConfigurationError):
    id = "FA-S005"


class FileExposed(ConfigurationError):
    id = "FA-S006"


class SettingUnclear(ConfigurationError):
    id = "FA-S007"


class GroupUnknown(ConfigurationError):
    id = "FA-S008"


class SettingUseless(ConfigurationError):
    id = "FA-S009"


class NameUnknown(ConfigurationError):
    id = "FA-S010"


class AddressWrong(ConfigurationError):
    id = "FA-S011"


class TlsWrong(ConfigurationError):
    id = "FA-S012"


class CredentialsWrong(ConfigurationError):
    id = "FA-S013"


class FolderUnusable(ConfigurationError):
    id = "FA-S014"


class ChangeRefused(ConfigurationError):
    id = "FA-S015"


class EmbeddedMisplaced(ConfigurationError):
    id = "FA-S016"


class ListenerWrong(ConfigurationError):
    id = "FA-S017"


class ListenerTaken(ListenerWrong):
    """Another process has the address."""


# H, handlers and what is declared beside them.


class ModuleMissing(ConfigurationError):
    id = "FA-H001"


class SyntaxWrong(ConfigurationError):
    id = "FA-H002"


class ImportFailed(ConfigurationError):
    id = "FA-H003"


class NothingToRun(ConfigurationError):
    id = "FA-H004"


class OptionWrong(ConfigurationError):
    id = "FA-H005"


class RetryWrong(ConfigurationError):
    id = "FA-H006"


class PublishesWrong(ConfigurationError):
    id = "FA-H007"


class ResourceWrong(ConfigurationError):
    id = "FA-H008"


class ParameterWrong(ConfigurationError):
    id = "FA-H009"


class ReturnWrong(ConfigurationError):
    id = "FA-H010"


class GroupClash(ConfigurationError):
    id = "FA-H011"


class FilterRefused(ConfigurationError):
    id = "FA-H013"


class NameWrong(ConfigurationError, ValueError):
    id = "FA-H014"


class RepliesWrong(ConfigurationError):
    id = "FA-H015"


# A, applications and producers, and those who call them.


class WrongMoment(ConfigurationError):
    id = "FA-A001"


class ArgumentWrong(ConfigurationError, ValueError):
    id = "FA-A003"


class ArgumentMistyped(ArgumentWrong, TypeError):
    """Of a type that it cannot be."""


class InstanceTaken(ConfigurationError):
    id = "FA-A004"


class ResourceFailed(ConfigurationError):
    id = "FA-A005"


class GroupNotHere(ConfigurationError):
    id = "FA-A006"


class TransactionWrong(ConfigurationError):
    id = "FA-A007"


# M, messages that are to be sent.


class MessageWrong(ConfigurationError, ValueError):
    id = "FA-M001"


class MessageMistyped(MessageWrong, TypeError):
    """It, or a part of it, is of a type that it cannot be."""


# U, the command line.


class UsageWrong(ConfigurationError):
    id = "FA-U002"


# C, the cluster.


class NotInCluster(ConfigurationError):
    id = "FA-C008"


class ClusterCannot(ConfigurationError):
    id = "FA-C009"


class RetryQueueMissing(ConfigurationError):
    id = "FA-C010"


class AddressNotAllowed(ConfigurationError):
    id = "FA-C011"


# P, plugins: their hooks, and what they offer.


class PluginBroken(ConfigurationError):
    id = "FA-P001"


class PluginUnknown(ConfigurationError):
    id = "FA-P002"


class HookWrong(ConfigurationError):
    id = "FA-P003"


class PluginVersionWrong(ConfigurationError):
    id = "FA-P004"


class OfferWrong(ConfigurationError):
    id = "FA-P005"


# B, the built-in broker.


class ExportWrong(ConfigurationError):
    id = "FA-B004"


class UsersWrong(ConfigurationError):
    id = "FA-B005"


class BindOpen(ConfigurationError):
    id = "FA-B006"
