import KeyCustody
import StorePlatform

// What is missing or contradictory about a key, as errors.

extension Keyring {
    private var name: String { "\"\(paths?.database ?? ":memory:")\"" }

    func keyMissing() -> StoreError {
        StoreError(
            .keyMissing,
            what: "No key was given for \(name).",
            why: "A database file without a key would be written in readable form.",
            remedy: "Call usePassphrase or useRawKey first in Configuration.prepareDatabase, or open it as a "
                + "SharedStore with a key source; set allowsUnencrypted = true if it is meant to be readable."
        )
    }

    func saltMissing() -> StoreError {
        if let cut = paths.flatMap({ CutRestoration.error(.saltMissing, $0) }) { return cut }
        return StoreError(
            .saltMissing,
            what: "The salt of \(name) is not known.",
            why:
                "The file has a plaintext header, so it does not hold its salt, and neither \"\(paths?.sidecar ?? "")\" "
                + "nor its .bak is there.",
            remedy: "Put the sidecar back from a backup, or set the salt with PRAGMA cipher_salt behind the key. "
                + "Without the salt a passphrase cannot open the file."
        )
    }

    func standardFile() -> StoreError {
        StoreError(
            .settingsConflict,
            what: "\(name) has no plaintext header, as every store has.",
            why: "It looks like a standard SQLCipher file, whose first 16 bytes are its salt.",
            remedy:
                "Turn it into a store with `cipherctl adopt` (SQLCipher 1 to 3 with --compatibility), or open it in "
                + "prepareDatabase without PRAGMA cipher_plaintext_header_size."
        )
    }

    func settingsConflict(_ why: String) -> StoreError {
        StoreError(
            .settingsConflict,
            what: "The cipher settings asked for do not fit \(name).",
            why: why + ".",
            remedy:
                "Leave the settings out: those on record are used. For a new file give them directly behind the key, "
                + "before statements that use it."
        )
    }

    /// The store has another key than the one that this process holds.
    func keyRotated(from: UInt64, to: UInt64) -> StoreError {
        StoreError(
            .keyRotated(from: from, to: to),
            what: "\(name) has another key than it had when it was opened (epoch \(from) -> \(to)).",
            why:
                "It was re-encrypted by another process, and the keys that this process holds do not open it any more.",
            remedy: "Reopen the store; the key source will be asked again.")
    }

    func switching(_ path: String) -> StoreError {
        StoreError(
            .rotationPending,
            what: "\"\(path)\" cannot be opened at this moment.",
            why: "A rotation of its data key was about to exchange the file, and may have been cut there.",
            remedy:
                "Try again; if it stays so, open it once for writing as a SharedStore, which completes the rotation.")
    }
}
