# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates for tests: an authority that signs servers and clients, like a cluster's."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


class Authority:
    """Certificate authority. ``pem`` is its own certificate."""

    def __init__(self, name: str = "test-ca") -> None:
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(name, self._key, None)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *addresses: str, hours: float = 1) -> tuple[bytes, bytes]:
        """Return a certificate and its key in PEM, for a server at these addresses or, without any, for a client.

        The certificate ends after ``hours``; if that is negative, it has ended.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key, addresses, hours)
        return (
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def server_context(
        self, directory: Path, address: str = "127.0.0.1", *, ask_clients: bool = False
    ) -> ssl.SSLContext:
        """Return TLS for a server; with ``ask_clients``, clients need a certificate of this authority."""
        certificate, key = self.issue("apiserver", address)
        file = directory / f"server-{self._name}.pem"
        file.write_bytes(certificate + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        if ask_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.pem.decode())
        return context

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, addresses: Sequence[str] | None, hours: float = 1
    ) -> x509.Certificate:
        """Return a signed certificate; ``addresses`` is None for the authority itself, and empty for a client."""
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=hours))
            .add_extension(x509.BasicConstraints(ca=addresses is None, path_length=None), critical=True)
        )
        if addresses:
            alternatives = x509.SubjectAlternativeName([_alternative(address) for address in addresses])
            builder = builder.add_extension(alternatives, critical=False)
        return builder.sign(self._key, hashes.SHA256())
