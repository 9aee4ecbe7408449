"""The shop of large pages: `python -m benchmarks.large.shop`. As `benchmarks.shop`, over TLS and
packed with gzip; its pages are made by `benchmarks.large.pages`, or are files of a folder, each
as many products as it takes."""

from __future__ import annotations

import argparse
import re
import ssl
import zlib
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.large import pages
from benchmarks.shop import Server

ENDS = re.compile(rb"</(?:title|h1)>", re.I)
JSONLD = re.compile(rb"<script[^>]*ld\+json.*?</script>", re.I | re.S)
PRODUCT = re.compile(rb'"@type"\s*:\s*\[?\s*"Product"')
NAMES = re.compile(rb'"(?:name|sku|mpn|productID)"\s*:\s*"')


class LargeServer(Server):
    def __init__(
        self, products: int, size: int, tls: ssl.SSLContext, saved: Path | None = None
    ) -> None:
        self.size = size
        self.saved = saved
        super().__init__(products, 0.0, 0, tls)

    def render(self, *, only_jsonld: bool = False) -> None:
        """`only_jsonld`: without the saved pages that have no product in JSON-LD."""
        self.ready[b"/robots.txt"] = _answer(b"", b"200 OK", b"text/plain")
        for number in range(1, pages.listings(self.products) + 1):
            body = pages.listing_page(number, self.products)
            self.ready[b"/all?page=%d" % number] = _answer(body)
        if self.saved is None:
            for number in range(1, self.products + 1):
                body = pages.product_page(number, self.size, self.url)
                self.ready[b"/p/%d" % number] = _answer(body)
            return
        files = [path.read_bytes() for path in saved_pages(self.saved)]
        if only_jsonld:
            files = [page for page in files if any(map(PRODUCT.search, JSONLD.findall(page)))]
        for number in range(1, self.products + 1):
            self.ready[b"/p/%d" % number] = _answer(varied(files[number % len(files)], number))

    def _control(self, target: bytes) -> bytes:
        if target in (b"/_control/saved", b"/_control/saved-jsonld"):
            self.render(only_jsonld=target.endswith(b"jsonld"))
            target = b"/_control/reset"
        return super()._control(target)

    def page(self, target: bytes) -> bytes:
        return self.ready.get(target) or _answer(b"no such page", b"404 Not Found")

    def truth(self) -> list[dict[str, Any]]:
        numbers = range(1, self.products + 1)
        if self.saved is not None:
            return [{"id": str(number)} for number in numbers]
        return [pages.product(number, self.url) for number in numbers]


def varied(page: bytes, number: int) -> bytes:
    """The page as that of another product: with the number in its title, its heading, and the names
    and SKUs of its JSON-LD."""
    sign = b" %d" % number
    page = ENDS.sub(lambda end: sign + end[0], page)
    return JSONLD.sub(
        lambda block: NAMES.sub(lambda start: start[0] + sign[1:] + b" ", block[0]), page
    )


def saved_pages(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.htm*") if path.is_file())


def _answer(body: bytes, status: bytes = b"200 OK", kind: bytes = b"text/html") -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    packed = packer.compress(body) + packer.flush()
    head = (
        b"HTTP/1.1 %b\r\nContent-Type: %b; charset=utf-8\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: %d\r\n\r\n"
    )
    return head % (status, kind, len(packed)) + packed


def write_certificate(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that signs itself, in one file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=True
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "shop.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large.shop", description=__doc__)
    parser.add_argument("--products", type=int, default=1000)
    parser.add_argument("--size", type=int, default=600_000)
    parser.add_argument("--pages", type=Path)
    parser.add_argument("--certificate", type=Path, required=True)
    args = parser.parse_args()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(args.certificate)
    server = LargeServer(args.products, args.size, tls, args.pages)
    print(f"listening on {server.url}", flush=True)
    server.run()


if __name__ == "__main__":
    main()
