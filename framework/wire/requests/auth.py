"""Queries about users and their rules."""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import RequestHeader


class UserRequest(RequestHeader, code=RequestCode.AUTH_GET_USER):
    username: str | None = None


class UserListRequest(RequestHeader, code=RequestCode.AUTH_LIST_USER):
    """`filter`: a part of the name."""

    filter: str | None = None


class AclRequest(RequestHeader, code=RequestCode.AUTH_GET_ACL):
    subject: str


class AclListRequest(RequestHeader, code=RequestCode.AUTH_LIST_ACL):
    """Parts of subjects and of resources."""

    subject_filter: str | None = None
    resource_filter: str | None = None
