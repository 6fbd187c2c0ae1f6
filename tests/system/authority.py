"""Certificates for the tests that need some."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Authority"]

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")


class Authority:
    """A certificate authority in a directory, good for a day."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir()
        self._directory = directory
        self.certificate = directory / "ca.crt"
        openssl(directory, "req", "-x509", "-subj", f"/CN={name}", *NEW_KEY, "-keyout", "ca.key", "-out", "ca.crt")

    def issue(self, name: str, subject_alternative_name: str) -> tuple[Path, Path]:
        """A server's certificate and its key."""
        extensions = self._directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={subject_alternative_name}\n")
        openssl(
            self._directory, "req", "-subj", f"/CN={name}", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        signed_by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", extensions.name]
        openssl(self._directory, "x509", "-req", "-in", f"{name}.csr", *signed_by, "-out", f"{name}.crt")
        return self._directory / f"{name}.crt", self._directory / f"{name}.key"


def openssl(directory: Path, *words: str) -> None:
    # req takes -days only with -x509, and says so without failing.
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=60)
