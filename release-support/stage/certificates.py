"""Certificates for TLS servers on this machine, made when they are needed."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority, and the TLS servers that it vouches for."""

    def __init__(self, folder: Path, name: str, subject: str = "server") -> None:
        """Make an authority; files go into `folder`, servers are called `subject`."""
        self._folder, self.subject = folder, subject
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.BasicConstraints(ca=True, path_length=None)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        built = self._builder(self._name, self._key, -1, 1)
        built = built.add_extension(usage, critical=True).add_extension(identifier, critical=False)
        signing = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        built = built.add_extension(signing, critical=True)
        self.certificate = built.sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> str:
        """The authority's own certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def server(
        self,
        label: str,
        names: Sequence[x509.GeneralName],
        start: int = -1,
        end: int = 1,
        own: bool = False,
    ) -> ssl.SSLContext:
        """Return a server's context; the certificate is valid from and to so many days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.subject)])
        built = self._builder(subject, key, start, end, issuer=subject if own else self._name)
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signer = key if own else self._key
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        built = built.add_extension(authority, critical=False)
        certificate = built.sign(signer, hashes.SHA256())
        file = self._folder / f"{label}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        start: int,
        end: int,
        issuer: x509.Name | None = None,
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=start))
            .not_valid_after(now + datetime.timedelta(days=end))
        )
