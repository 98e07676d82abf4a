# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import hmac


def verify(headers, body, secret, now):
    """Return whether Climate sent ``body``, in bytes, within five minutes of ``now``."""
    sent = headers.get('webhook-timestamp', '')
    signed = f'{headers.get("webhook-id", "")}.{sent}.'.encode() + body
    digest = hmac.digest(secret.encode(), signed, hashlib.sha256)
    wanted = b'v1,' + base64.b64encode(digest)
    given = headers.get('webhook-signature', '').encode().split()
    if not any(hmac.compare_digest(wanted, each) for each in given):
        return False
    return abs(now - int(sent)) < 300
