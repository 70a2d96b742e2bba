"""An OpenID Connect issuer on loopback: whoever comes is logged in at once as the person who is set."""

import base64
import hashlib
import http.server
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT = "edgesweep-test"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@dataclass
class Issuer:
    """`claims`: what it says of the person."""

    url: str = ""
    claims: dict[str, object] = field(default_factory=dict)
    nonces: dict[str, str] = field(default_factory=dict)
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    def token(self, nonce: str, access: str) -> str:
        now = int(time.time())
        about = {"iss": self.url, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 3600, "nonce": nonce}
        about["at_hash"] = _encoded(hashlib.sha256(access.encode()).digest()[:16])
        parts = [{"alg": "RS256", "kid": "1", "typ": "JWT"}, {**about, **self.claims}]
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    def documents(self) -> dict[str, object]:
        public = self.key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": _number(public.n), "e": _number(public.e)}
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            },
            "/keys": {"keys": [key]},
        }


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                code = secrets.token_hex(8)
                issuer.nonces[code] = query.get("nonce", "")
                back = urlencode({"code": code, "state": query["state"]})
                self.send_response(302)
                self.send_header("Location", f"{query['redirect_uri']}?{back}")
                self.end_headers()
                return
            self._json(issuer.documents().get(parts.path))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            access = secrets.token_hex(8)
            token = issuer.token(issuer.nonces.pop(form["code"][0]), access)
            self._json({"access_token": access, "token_type": "Bearer", "expires_in": 3600, "id_token": token})

        def _json(self, document: object) -> None:
            content = json.dumps(document).encode()
            self.send_response(200 if document is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
