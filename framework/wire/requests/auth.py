"""Users and their rules, as administrators ask for them. What is to be changed stands in bodies."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import header


@header
class CreateUserRequest:
    CODE: ClassVar = RequestCode.AUTH_CREATE_USER
    username: str


@header
class UpdateUserRequest:
    CODE: ClassVar = RequestCode.AUTH_UPDATE_USER
    username: str


@header
class DeleteUserRequest:
    CODE: ClassVar = RequestCode.AUTH_DELETE_USER
    username: str


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
class CreateAclRequest:
    """`subject`: `User:name`."""

    CODE: ClassVar = RequestCode.AUTH_CREATE_ACL
    subject: str


@header
class UpdateAclRequest:
    CODE: ClassVar = RequestCode.AUTH_UPDATE_ACL
    subject: str


@header
class DeleteAclRequest:
    CODE: ClassVar = RequestCode.AUTH_DELETE_ACL
    subject: str
    policy_type: str | None = None
    resource: str | None = None


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
