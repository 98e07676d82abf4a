# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
import hmac


def verify(headers, body, secret, now):
    """Tell whether the lease service sent ``body``, bytes, shortly before ``now``, in seconds."""
    sent = headers['webhook-timestamp']
    signed = f'{headers["webhook-id"]}.{sent}.'.encode() + body
    wanted = base64.b64encode(hmac.digest(secret.encode(), signed, hashlib.sha256)).decode()
    given = (each.removeprefix('v1,') for each in headers['webhook-signature'].split())
    fresh = abs(now - int(sent)) < 300
    return fresh and any(hmac.compare_digest(wanted, each) for each in given)
