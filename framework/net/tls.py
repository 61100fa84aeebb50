"""TLS contexts from options, and what a failed connection means, in words which every command says alike.

Verified by default, TLS 1.2 at least. It owns no connection. A stock RocketMQ client verifies nobody; when ours is told
to do the same, it says so in a warning at each start.
"""

from __future__ import annotations

import os
import socket
import ssl
import stat
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from framework.mistakes import TlsWrong

log = structlog.get_logger()

SILENT_CLOSE_HINT = ", without a word; it may be a TLS port (cluster.tls.enabled: true), or no broker"
"""Behind the reason of a connection on which nothing was ever heard."""
_ISSUER = "; name its issuer in cluster.tls.ca_file"
_NAME = "; correct the address, or set cluster.tls.server_name"
_OF_CERTIFICATES = {18: _ISSUER, 19: _ISSUER, 20: _ISSUER, 21: _ISSUER, 62: _NAME, 64: _NAME}
"""What to do, by OpenSSL's number of what is wrong: nothing here mends the others."""
PLAIN_REMEDY = "use its TLS port, or set cluster.tls.enabled: false"
CLOSED_IN_HANDSHAKE = f"connection closed during the TLS handshake; the peer may not speak TLS there: {PLAIN_REMEDY}"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How to speak TLS; every file is PEM."""

    verify: bool = True
    """False trusts any certificate, so a machine in between can read everything. Each start warns."""
    ca_file: str = ""
    """Trusted certificates. Empty: the system's."""
    cert_file: str = ""
    """The client's certificate, for servers that ask for one."""
    key_file: str = ""
    """Its key. Empty: in the same file."""
    key_password: str = field(default="", repr=False)
    server_name: str = ""
    """The name that certificates must carry. Empty: the host that is dialled."""


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """For connecting. ConfigurationError names the file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options.verify:
        _trust(context, options.ca_file)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        log.warning("certificates not verified", setting="tls.verify", value=False)
    if options.cert_file or options.key_file:
        _load_key(context, options)
    return context


def check_files(options: TlsOptions) -> None:
    """Whether a client could use the files. Raises ConfigurationError that begins with the setting, `tls.ca_file`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if options.verify:
        _trust(context, options.ca_file)
    if options.cert_file or options.key_file:
        _load_key(context, options)


def server_context(options: TlsOptions, *, client_certificates: bool = False) -> ssl.SSLContext:
    """For listening; with `client_certificates`, only for clients that `ca_file` vouches for."""
    if not options.cert_file:
        raise TlsWrong("tls: a listener needs cert_file (and key_file)")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_key(context, options)
    if client_certificates:
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, options.ca_file)
    return context


def _trust(context: ssl.SSLContext, ca_file: str) -> None:
    if not ca_file:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        raise TlsWrong(f"tls.ca_file {ca_file!r}: {_file_trouble(error)}") from error


def _load_key(context: ssl.SSLContext, options: TlsOptions) -> None:
    if not options.cert_file:
        raise TlsWrong(f"tls.key_file {options.key_file!r}: give tls.cert_file as well")
    key_file = options.key_file or options.cert_file
    for name, path in (("cert_file", options.cert_file), ("key_file", key_file)):
        if not os.access(path, os.R_OK):
            trouble = "cannot be read by this user" if Path(path).exists() else "no such file"
            raise TlsWrong(f"tls.{name} {path!r}: {trouble}")
    try:
        # Without a password given, OpenSSL would ask at the terminal, or hang where there is none.
        context.load_cert_chain(options.cert_file, key_file, password=lambda: options.key_password)
    except (OSError, ssl.SSLError) as error:
        raise TlsWrong(f"tls.key_file {key_file!r}: {_key_trouble(error, key_file, options)}") from error
    if Path(key_file).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("key readable by others", setting="tls.key_file", path=key_file, remedy="chmod 600")


def _file_trouble(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "cannot be read by this user"
    return f"no certificate in PEM form ({getattr(error, 'reason', None) or error})"


def _key_trouble(error: Exception, key_file: str, options: TlsOptions) -> str:
    reason = str(getattr(error, "reason", None) or error)
    if reason == "KEY_VALUES_MISMATCH":
        return f"does not belong to the certificate in {options.cert_file!r}"
    if b"CERTIFICATE" not in Path(options.cert_file).read_bytes():
        return f"no certificate in PEM form in {options.cert_file!r}"
    # OpenSSL says the same of a wrong password and of a file that is no PEM at all.
    if b"ENCRYPTED" in Path(key_file).read_bytes():
        return "wrong tls.key_password" if options.key_password else "is encrypted: give tls.key_password"
    return f"no key in PEM form ({reason})"


def said(error: Exception) -> str:
    """Why nobody is there, without numbers of errors and Python's names."""
    if isinstance(error, socket.gaierror):
        return "no such host: its name has no address"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def handshake_trouble(error: Exception, expected_host: str) -> str | None:
    """What a failed handshake means; None where TLS is not to blame."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = _OF_CERTIFICATES.get(error.verify_code, "")
        return f"certificate refused for {expected_host}: {error.verify_message}{remedy}"
    if isinstance(error, ssl.SSLError):
        reason = (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
        if "wrong version number" in reason or "record layer" in reason:
            return f"peer does not speak TLS here; {PLAIN_REMEDY}"
        if "protocol version" in reason or "unsupported protocol" in reason:
            return "peer offers no TLS 1.2 or newer"
        return CLOSED_IN_HANDSHAKE if "eof" in reason else f"TLS handshake failed: {reason}"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError):
        return CLOSED_IN_HANDSHAKE
    return None
