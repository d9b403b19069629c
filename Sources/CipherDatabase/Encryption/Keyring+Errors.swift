import KeyCustody
import StorePlatform

// Missing or contradictory keys and settings, as errors.

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
        if let interrupted = paths.flatMap({ InterruptedRestoration.error(.saltMissing, $0) }) { return interrupted }
        return StoreError(
            .saltMissing,
            what: "The salt of \(name) is not known.",
            why:
                "The file has a plaintext header, so it does not hold its salt, and neither \"\(paths?.sidecar ?? "")\" "
                + "nor its .bak is there.",
            remedy: "Restore the sidecar from a backup. A program can also set the salt with PRAGMA cipher_salt after "
                + "the key. Without the salt a passphrase cannot open the file."
        )
    }

    func standardFile() -> StoreError {
        StoreError(
            .settingsConflict,
            what: "\(name) has no plaintext header, as every store has.",
            why: "It looks like a standard SQLCipher file, whose first 16 bytes are its salt.",
            remedy:
                "Convert it to a store with `cipherctl adopt` (SQLCipher 1 to 3 with --compatibility). A program can "
                + "open it as it is, without PRAGMA cipher_plaintext_header_size in prepareDatabase."
        )
    }

    func settingsConflict(_ why: String) -> StoreError {
        StoreError(
            .settingsConflict,
            what: "The requested cipher settings do not match \(name).",
            why: why + ".",
            remedy:
                "Omit the settings: the recorded ones are used. For a new file set them directly after the key, before "
                + "any statement that uses it."
        )
    }

    /// The store has another key than this process.
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
            why: "A rotation of its data key was about to replace the file, and may have been interrupted there.",
            remedy:
                "Try again. If the error persists, open the store once for writing with `cipherctl sql --write` "
                + "(SharedStore.open in a program): that completes the rotation.")
    }
}
