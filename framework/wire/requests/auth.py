"""Queries about users and their rules."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import header


@header
class UserRequest:
    CODE: ClassVar = RequestCode.AUTH_GET_USER
    username: str | None = None


@header
class UserListRequest:
    """`filter`: a part of the name."""

    CODE: ClassVar = RequestCode.AUTH_LIST_USER
    filter: str | None = None


@header
class AclRequest:
    CODE: ClassVar = RequestCode.AUTH_GET_ACL
    subject: str


@header
class AclListRequest:
    """Parts of subjects and of resources."""

    CODE: ClassVar = RequestCode.AUTH_LIST_ACL
    subject_filter: str | None = None
    resource_filter: str | None = None
