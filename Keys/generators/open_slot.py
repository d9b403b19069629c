#!/usr/bin/env python3
"""Opens a store without any code of CipherStore, and decrypts one of its pages.

Written from Docs/Formats/Sidecar.md and Docs/Formats/Pages.md alone, with Python's hashlib and PyPI's `cryptography`.
The database must be closed and its log empty: only the main file is read, and nothing is written. While a rotation is
pending, --next opens the next epoch: its pages are in DATABASE-rotating until that file has taken the database's name.

Usage: open_slot.py DATABASE (--passphrase-file F | --raw-key-file F | --recovery-file F | --plugin PROGRAM [--option K=V]
                    | --pkcs11-module FILE | --tpm2 [--tpm2-signature F]) [--next] [--page N] [--show-key]

A plugin is asked as Docs/Formats/KeyPlugin.md says. A PKCS#11 token is asked by OpenSC's pkcs11-tool, with its PIN in the
variable PIN: for keyslots of RSA keys, since that program has no AES-GCM. A TPM is asked by tpm2-tools, with its PIN in
the same variable, as Docs/Formats/SealedSecret.md says, but in sessions without encryption.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KINDS = ["passphrase", "key-file", "command", "credential", "recovery", "plugin", "pkcs11", "tpm2"]
TOKEN_KINDS = KINDS[5:]
HASHES = ["sha1", "sha256", "sha512"]
KDF_FIELDS = {"hkdf": [], "scrypt": ["log2_n", "r", "p"], "argon2id": ["memory_kib", "iterations", "lanes"]}
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def hkdf(key: bytes, salt: bytes, info: str, count: int) -> bytes:
    return HKDF(hashes.SHA256(), count, salt, info.encode()).derive(key)


# Wrapping

def context_start(purpose: int, store_id: bytes, version: int = 2) -> bytes:
    return b"cipherstore-wrap" + bytes([version, purpose]) + store_id


def slot_context(store_id: bytes, slot: dict) -> bytes:
    parameters = [slot[name] for name in KDF_FIELDS[slot["kdf"]]] or [0, 0, 0]
    has_token = slot["kind"] in TOKEN_KINDS
    context = (context_start(1, store_id, 3 if has_token else 2) + struct.pack(">QBB", slot["id"], KINDS.index(slot["kind"]) + 1,
                                                        list(KDF_FIELDS).index(slot["kdf"]) + 1)
               + struct.pack(">III", *parameters) + bytes.fromhex(slot["salt"]))
    if has_token:
        context += bytes([len(slot["name"])]) + slot["name"].encode() + bytes.fromhex(slot["token"])
    return context


def data_key_context(store_id: bytes, epoch: int, salt: bytes, cipher: dict) -> bytes:
    return context_start(2, store_id) + epoch_context(epoch, salt, cipher)


def next_key_context(store_id: bytes, epoch: int, salt: bytes, cipher: dict) -> bytes:
    return context_start(3, store_id, version=1) + epoch_context(epoch, salt, cipher)


def epoch_context(epoch: int, salt: bytes, cipher: dict) -> bytes:
    return (struct.pack(">Q", epoch) + salt
            + struct.pack(">III", cipher["page_bytes"], cipher["plaintext_header_bytes"], cipher["kdf_rounds"])
            + bytes([HASHES.index(cipher["kdf_hash"]) + 1, HASHES.index(cipher["hmac_hash"]) + 1]))


def slot_key(slot: dict, secret: bytes) -> bytes:
    salt = bytes.fromhex(slot["salt"])
    if slot["kdf"] == "scrypt":
        n, r, p = 1 << slot["log2_n"], slot["r"], slot["p"]
        secret = hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, dklen=32, maxmem=128 * r * (n + p + 2) + (1 << 20))
    elif slot["kdf"] == "argon2id":
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
        secret = Argon2id(salt=salt, length=32, iterations=slot["iterations"], lanes=slot["lanes"],
                          memory_cost=slot["memory_kib"]).derive(secret)
    return hkdf(secret, salt, "cipherstore slot wrapping v2", 32)


def unwrap(record: dict, key: bytes, context: bytes):
    try:
        return AESGCM(key).decrypt(bytes.fromhex(record["nonce"]), bytes.fromhex(record["wrapped"]), context)
    except InvalidTag:
        return None


# Recovery keys

def recovery_check(line: int, data: bytes) -> int:
    crc = 0xFFFF
    for byte in bytes([line]) + data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
    return crc


def print_recovery(key: bytes) -> str:
    lines = []
    for line in range(1, 5):
        data = key[8 * (line - 1):8 * line]
        bits = int.from_bytes(data + recovery_check(line, data).to_bytes(2, "big"), "big")
        text = "".join(ALPHABET[bits >> shift & 31] for shift in range(75, -1, -5))
        lines.append("-".join(text[i:i + 4] for i in range(0, 16, 4)))
    return "\n".join(lines) + "\n"


def read_recovery(text: str) -> bytes:
    key = b""
    symbols = [c for c in text.upper().translate(str.maketrans("ILO", "110")) if c not in " \t\r\n-"]
    if len(symbols) != 64:
        raise SystemExit("a recovery key has 64 characters")
    for line in range(1, 5):
        bits = 0
        for character in symbols[16 * (line - 1):16 * line]:
            bits = bits << 5 | ALPHABET.index(character)
        block = bits.to_bytes(10, "big")
        if recovery_check(line, block[:8]) != int.from_bytes(block[8:], "big"):
            raise SystemExit(f"line {line} of the recovery key is wrong")
        key += block[:8]
    return key


# Devices

def plugin(program: str, options: list):
    def secret(sidecar, slot: dict):
        if program.rpartition("cipherctl-key-")[2] != slot["name"]:
            return None
        words = ["cipherstore-key", "1", "unwrap", f"store={sidecar.id.hex()}"]
        for option in options:
            name, _, value = option.partition("=")
            words.append(f"option.{name}={base64.b64encode(value.encode()).decode()}")
        blob = bytes.fromhex(slot["token"])[1:]
        words.append("blob=" + base64.b64encode(blob).decode())
        done = subprocess.run([program], input=" ".join(words) + "\n", capture_output=True, text=True, check=True)
        verb, _, value = done.stdout.strip().partition(" ")
        return base64.b64decode(value) if verb == "secret" else None
    return secret


def take(data: bytes, size: int = 1):
    """A value with its length before it, and the rest."""
    count = int.from_bytes(data[:size], "big")
    return data[size:size + count], data[size + count:]


def pkcs11(module: str):
    def secret(_, slot: dict):
        token = bytes.fromhex(slot["token"])
        version, method, rest = token[0], token[1], token[2:]
        serial, rest = take(rest)
        label, rest = take(rest)
        key_id, rest = take(rest)
        _, rest = take(rest)
        if version != 1 or method not in [2, 3]:
            return None
        _, rest = take(rest, 2)
        _, sealed = take(rest)
        hash_name = {2: "SHA256", 3: "SHA-1"}[method]
        with tempfile.NamedTemporaryFile() as file:
            file.write(sealed)
            file.flush()
            done = subprocess.run(
                ["pkcs11-tool", "--module", module, "--token-label", label.decode(), "--login", "--pin", "env:PIN",
                 "--decrypt", "--mechanism", "RSA-PKCS-OAEP", "--hash-algorithm", hash_name, "--mgf",
                 "MGF1-" + hash_name.replace("-", ""), "--id", key_id.hex(), "--input-file", file.name],
                capture_output=True, check=False)
        return done.stdout if done.returncode == 0 and len(done.stdout) == 32 else None
    return secret


class TPM:
    """The programs of tpm2-tools in a folder. They take the address of the TPM from TPM2TOOLS_TCTI."""

    def __init__(self, folder: str):
        self.folder = Path(folder)

    def write(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return name

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def run(self, name: str, *words: str) -> bytes:
        done = subprocess.run(["tpm2_" + name, *words], cwd=self.folder, capture_output=True, check=False)
        # Without a resource manager a TPM has room for three objects; each is in a file here.
        subprocess.run(["tpm2_flushcontext", "-t"], cwd=self.folder, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"tpm2_{name} failed: " + done.stderr.decode(errors="replace").strip())
        return done.stdout

    def primary(self, name: bytes) -> str:
        for handle in ["0x81000001", "primary.ctx"]:
            try:
                if handle == "primary.ctx":
                    self.run("createprimary", "-C", "o", "-g", "sha256", "-G", "ecc256:aes128cfb", "-a", "fixedtpm|fixedparent|"
                             "sensitivedataorigin|userwithauth|noda|restricted|decrypt", "-c", handle)
                self.run("readpublic", "-c", handle, "-n", "primary.name")
            except SystemExit:
                continue
            if self.read("primary.name") == name:
                return handle
        raise SystemExit("the secret was sealed by another TPM")

    def values(self, pcrs: list) -> bytes:
        self.run("pcrread", bank(pcrs), "-o", "values")
        return self.read("values")

    def approve(self, modulus: bytes, pcrs: list, signatures: Path) -> None:
        """Makes the files `approved`, `signer.name` and `ticket`."""
        key = rsa.RSAPublicNumbers(65537, int.from_bytes(modulus, "big")).public_key()
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.PKCS1)
        fingerprint = hashlib.sha256(der).hexdigest()
        mask = sum(1 << pcr for pcr in pcrs).to_bytes(3, "little")
        policy = hashlib.sha256(bytes(32) + bytes.fromhex("0000017f00000001000b03") + mask
                                + hashlib.sha256(self.values(pcrs)).digest()).digest()
        found = [entry for entry in json.loads(signatures.read_text())["sha256"]
                 if (entry["pkfp"], sorted(entry["pcrs"]), entry["pol"]) == (fingerprint, pcrs, policy.hex())]
        if not found:
            raise SystemExit("the values of the PCRs are not signed")
        self.write("approved", policy)
        self.write("signature", base64.b64decode(found[0]["sig"]))
        # Not from PEM: tpm2-tools make another TPMT_PUBLIC of that, with another name.
        size = len(modulus).to_bytes(2, "big")
        public = (bytes.fromhex("0001000b00060040000000100010") + (len(modulus) * 8).to_bytes(2, "big") + bytes(4)
                  + size + modulus)
        self.write("signer", len(public).to_bytes(2, "big") + public)
        self.run("loadexternal", "-C", "o", "-u", "signer", "-c", "signer.ctx", "-n", "signer.name")
        self.run("verifysignature", "-c", "signer.ctx", "-g", "sha256", "-m", "approved", "-s", "signature", "-f", "rsassa",
                 "-t", "ticket")


def bank(pcrs: list) -> str:
    return "sha256:" + ",".join(map(str, pcrs))


def pcr_list(data: bytes) -> list:
    return [pcr for pcr in range(24) if int.from_bytes(data, "big") >> pcr & 1]


def tpm2(signatures):
    def secret(_, slot: dict):
        blob = bytes.fromhex(slot["token"])
        version, needs_pin, pcrs, salt, rest = blob[0], blob[1], pcr_list(blob[4:8]), blob[8:24], blob[24:]
        if version not in [1, 2] or blob[2:4] != b"\0\x0b":
            return None
        signed, modulus = [], b""
        if version == 2:
            signed = pcr_list(rest[:4])
            modulus, rest = take(rest[4:], 2)
        parent, rest = take(rest, 2)
        _, rest = take(rest, 2)
        public, rest = take(rest, 2)
        private, rest = take(rest, 2)
        if len(rest) != 32 * len(pcrs):
            return None
        with tempfile.TemporaryDirectory() as folder:
            tpm = TPM(folder)
            tpm.run("load", "-C", tpm.primary(parent), "-u", tpm.write("public", public), "-r", tpm.write("private", private),
                    "-c", "object.ctx")
            if signed:
                tpm.approve(modulus, signed, signatures)
            tpm.run("startauthsession", "--policy-session", "-S", "session.ctx")
            try:
                if signed:
                    tpm.run("policypcr", "-S", "session.ctx", "-l", bank(signed))
                    tpm.run("policyauthorize", "-S", "session.ctx", "-i", "approved", "-n", "signer.name", "-t", "ticket")
                tpm.run("policycommandcode", "-S", "session.ctx", "TPM2_CC_Unseal")
                if pcrs:
                    tpm.run("policypcr", "-S", "session.ctx", "-l", bank(pcrs))
                authorization = "session:session.ctx"
                if needs_pin:
                    tpm.run("policyauthvalue", "-S", "session.ctx")
                    value = bytearray(hkdf(os.environ["PIN"].encode(), salt, "cipherstore tpm2 pin v1", 32))
                    value[-1] |= 0x80
                    authorization += "+hex:" + value.hex()
                return tpm.run("unseal", "-c", "object.ctx", "-p", authorization)
            finally:
                tpm.run("flushcontext", "session.ctx")
    return secret


# The sidecar

class Sidecar:
    """A sidecar of version 1 or 2. Its grammar is left to JSON here: what counts is that it is authenticated."""

    def __init__(self, content: bytes):
        self.lines = content.splitlines(keepends=True)
        records = [json.loads(line) for line in self.lines]
        self.version = records[0].get("version")
        if records[0] != {"format": "cipherstore-sidecar", "version": self.version} or self.version not in [1, 2, 3]:
            raise SystemExit("not a sidecar of version 1, 2 or 3")
        # Version 3 is version 2 with tokens.
        self.version = min(self.version, 2)
        self.slots = [r for r in records if r.get("record") == "slot"]
        self.pending_slots = [r for r in records if r.get("record") == "pending-slot"]
        self.store, self.cipher, self.data_key, self.pending, self.key_check, self.pending_key_check = (
            next((r for r in records if r.get("record") == name), None)
            for name in ["store", "cipher", "data-key", "pending", "key-check", "pending-key-check"])
        self.mac = records[-1]["mac"]
        self.pending_mac = next((r["pending-mac"] for r in records if "pending-mac" in r), None)
        self.id = bytes.fromhex(self.store["id"])
        self.salt = bytes.fromhex(self.cipher["salt"])
        self.next_salt = bytes.fromhex(self.pending["salt"]) if self.pending else None
        self.opened_by = None

    def covered(self, name: str) -> bytes:
        """Every byte before the line of a code."""
        count = next(i for i, line in enumerate(self.lines) if line.startswith(b'{"' + name.encode() + b'"'))
        return b"".join(self.lines[:count])

    # Slots

    def open_slots(self, slots: list, secret, kinds: list):
        """The slot that a secret opens, and its master key; or two times None. A device is called for each of its slots."""
        for slot in slots:
            if slot["kind"] in kinds:
                given = secret(self, slot) if callable(secret) else secret
                master = given and unwrap(slot, slot_key(slot, given), slot_context(self.id, slot))
                if master is not None:
                    return slot, master
        return None, None

    def open_data_key(self, master: bytes, record: dict, salt: bytes) -> bytes:
        key = unwrap(record, hkdf(master, self.id, "cipherstore data key wrapping v2", 32),
                     data_key_context(self.id, record["epoch"], salt, self.cipher))
        if key is None:
            raise SystemExit("the data key does not open")
        return key

    # Direct stores

    def derive(self, passphrase: bytes, salt: bytes) -> bytes:
        return hashlib.pbkdf2_hmac(self.cipher["kdf_hash"], passphrase, salt, self.cipher["kdf_rounds"], 32)

    def open_next_key(self, key: bytes) -> bytes:
        wrapping = hkdf(key, self.id, "cipherstore next key wrapping v1", 32)
        return unwrap(self.pending, wrapping,
                      next_key_context(self.id, self.pending["epoch"], self.next_salt, self.cipher))

    # Authentication: of the present epoch by the data key of a direct store or by the master key, of the next by its own

    def check(self, key: bytes) -> bytes:
        label = "cipherstore key check v1" if self.version == 1 else "cipherstore slots key check v2"
        return hkdf(key, self.id, label, 16)

    def mac_key(self, key: bytes) -> bytes:
        return hkdf(key, self.id, "cipherstore sidecar mac v1" if self.version == 1 else "cipherstore slots mac v2", 32)

    def fits(self, key: bytes) -> bool:
        return hmac.compare_digest(self.check(key).hex(), self.key_check["value"])

    def authenticate(self, key: bytes) -> None:
        mac = hmac.new(self.mac_key(key), self.covered("mac"), "sha256").hexdigest()
        if not self.fits(key) or not hmac.compare_digest(mac, self.mac):
            raise SystemExit("the sidecar was changed by somebody without its key, or this is not its key")

    def pending_mac_key(self, next_key: bytes, next_master) -> bytes:
        if self.pending_slots:
            return hkdf(next_master, self.id, "cipherstore pending slots mac v2", 32)
        return hkdf(next_key, self.id, f"cipherstore pending mac v{self.version}", 32)

    def authenticate_pending(self, next_key: bytes, next_master) -> None:
        mac_key = self.pending_mac_key(next_key, next_master)
        mac = hmac.new(mac_key, self.covered("pending-mac"), "sha256").hexdigest()
        own = next_master if self.pending_slots else next_key if self.version == 1 else None
        is_right = own is None or self.check(own).hex() == self.pending_key_check["value"]
        if not is_right or not hmac.compare_digest(mac, self.pending_mac):
            raise SystemExit("the pending part of the sidecar was written by somebody without its key")

    # Everything together

    def unlock(self, secret: bytes, kinds: list, is_next: bool):
        """Data key and salt of the present or the next epoch, authenticated."""
        if is_next and not self.pending:
            raise SystemExit("no rotation is pending")
        return self.unlock_direct(secret, kinds, is_next) if self.version == 1 else self.unlock_slots(secret, kinds, is_next)

    def unlock_direct(self, secret: bytes, kinds: list, is_next: bool):
        is_raw = "passphrase" not in kinds
        key = secret if is_raw else self.derive(secret, self.salt)
        if self.fits(key):
            self.authenticate(key)
            if not is_next:
                return key, self.salt
            next_key = self.open_next_key(key)
        elif is_next:
            next_key = secret if is_raw else self.derive(secret, self.next_salt)
        else:
            raise SystemExit("the key does not open the store")
        self.authenticate_pending(next_key, None)
        return next_key, self.next_salt

    def unlock_slots(self, secret: bytes, kinds: list, is_next: bool):
        if is_next and self.pending_slots:
            slot, master = self.open_slots(self.pending_slots, secret, kinds)
        else:
            slot, master = self.open_slots(self.slots, secret, kinds)
        if master is None:
            raise SystemExit("the key opens no slot")
        self.opened_by = slot
        if not (is_next and self.pending_slots):
            self.authenticate(master)
        if not is_next:
            return self.open_data_key(master, self.data_key, self.salt), self.salt
        next_key = self.open_data_key(master, self.pending, self.next_salt)
        self.authenticate_pending(next_key, master)
        return next_key, self.next_salt


# Pages (Docs/Formats/Pages.md)

def decrypt_page(page: bytes, number: int, key: bytes, salt: bytes, cipher: dict) -> bytes:
    code_bytes = hashlib.new(cipher["hmac_hash"]).digest_size
    usable = len(page) - (16 + code_bytes + 15) // 16 * 16
    clear = 0 if number > 1 else cipher["plaintext_header_bytes"] or 16
    mac_key = hashlib.pbkdf2_hmac(cipher["kdf_hash"], key, bytes(b ^ 0x3A for b in salt), 2, 32)
    code = hmac.new(mac_key, page[clear:usable + 16] + struct.pack("<I", number), cipher["hmac_hash"]).digest()
    if not hmac.compare_digest(code, page[usable + 16:usable + 16 + code_bytes]):
        raise SystemExit(f"page {number} is damaged, or the key is not its key")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(page[usable:usable + 16])).decryptor()
    plain = decryptor.update(page[clear:usable]) + decryptor.finalize()
    prefix = page[:clear] if cipher["plaintext_header_bytes"] else b"SQLite format 3\0"
    return (prefix if clear else b"") + plain + bytes(len(page) - usable)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("database", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--passphrase-file", type=Path)
    source.add_argument("--raw-key-file", type=Path)
    source.add_argument("--recovery-file", type=Path)
    source.add_argument("--plugin", help="the program of a plugin")
    source.add_argument("--pkcs11-module", help="the library of a token")
    source.add_argument("--tpm2", action="store_true", help="the TPM that tpm2-tools find")
    parser.add_argument("--tpm2-signature", type=Path, help="a file of systemd-measure")
    parser.add_argument("--option", action="append", default=[], help="what the plugin is told, as KEY=VALUE")
    parser.add_argument("--next", action="store_true", help="open the next epoch of a store that is being rotated")
    parser.add_argument("--page", type=int, default=1, help="the page to decrypt to standard output")
    parser.add_argument("--show-key", action="store_true", help="print data key and salt instead of a page")
    arguments = parser.parse_args()

    sidecar = Sidecar(Path(str(arguments.database) + "-sidecar").read_bytes())
    if arguments.passphrase_file:
        secret = arguments.passphrase_file.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
        kinds = ["passphrase", "command", "credential"]
    elif arguments.plugin:
        secret, kinds = plugin(arguments.plugin, arguments.option), ["plugin"]
    elif arguments.pkcs11_module:
        secret, kinds = pkcs11(arguments.pkcs11_module), ["pkcs11"]
    elif arguments.tpm2:
        secret, kinds = tpm2(arguments.tpm2_signature), ["tpm2"]
    elif arguments.raw_key_file:
        secret, kinds = arguments.raw_key_file.read_bytes(), ["key-file", "recovery"]
    else:
        secret, kinds = read_recovery(arguments.recovery_file.read_text()), ["recovery"]
    key, salt = sidecar.unlock(secret, kinds, arguments.next)
    slot = sidecar.opened_by
    by = f"slot {slot['id']} ({slot['kind']})" if slot else "the key of a direct store"
    print(f"{by} opened epoch {sidecar.store['epoch'] + arguments.next}", file=sys.stderr)
    if arguments.show_key:
        print(json.dumps({"key": key.hex(), "salt": salt.hex()}))
        return
    size = sidecar.cipher["page_bytes"]
    copy = Path(str(arguments.database) + "-rotating")
    with (copy if arguments.next and copy.exists() else arguments.database).open("rb") as file:
        file.seek((arguments.page - 1) * size)
        page = file.read(size)
    if len(page) != size:
        raise SystemExit(f"the database has no page {arguments.page}")
    sys.stdout.buffer.write(decrypt_page(page, arguments.page, key, salt, sidecar.cipher))


if __name__ == "__main__":
    main()
