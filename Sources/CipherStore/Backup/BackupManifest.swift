import KeyCustody
import StoreCrypto
import StorePlatform

/// The description of a backup: `manifest.json`, described in `Docs/Formats/Backup.md`.
///
/// The hashes find damage, and anyone can compute them. The key of the authentication code is derived from the data
/// key, so only its holder can combine files of different moments.
package struct BackupManifest: Hashable, Sendable {
    /// A file of the backup.
    struct File: Hashable, Sendable {
        let name: String
        let byteCount: Int
        let sha256: [UInt8]
    }

    static let formatName = "cipherstore-backup"
    static let formatVersion: UInt64 = 1
    static let macLabel = "cipherstore backup mac v1"

    /// The store that was backed up.
    var storeID: StoreID
    /// Its data key.
    var epoch: UInt64
    /// The version of its sidecar.
    var generation: UInt64
    /// When the backup was made, in seconds since 1970.
    var created: UInt64
    var pageBytes: Int
    var pages: UInt32
    var database: File
    var sidecar: File
    /// SQLCipher's version.
    var library: String

    /// The same without the files.
    var facts: BackupFacts {
        BackupFacts(
            storeID: storeID, epoch: epoch, generation: generation, created: created, pageBytes: pageBytes,
            pages: pages)
    }

    /// The bytes of the file, sealed with the data key.
    func encoded(_ dataKey: DataKey) throws -> [UInt8] {
        let body = body
        let mac = try Self.mac(of: body, storeID: storeID, dataKey)
        return body + Self.lastLines(mac)
    }

    /// Whether a holder of the data key wrote these bytes.
    static func isAuthentic(_ read: ReadManifest, _ dataKey: DataKey) throws -> Bool {
        let mac = try mac(of: read.manifest.body, storeID: read.manifest.storeID, dataKey)
        return MessageAuthentication.isEqual(mac, read.mac)
    }

    private static func mac(of body: [UInt8], storeID: StoreID, _ dataKey: DataKey) throws -> [UInt8] {
        try dataKey.withSecret { secret throws(CryptoError) in
            let key = try KeyDerivation.hkdf(key: secret, salt: storeID.bytes, label: macLabel, keyBytes: 32)
            return try MessageAuthentication.hmac(.sha256, key: key, body)
        }
    }

    /// Every line before the authentication code.
    fileprivate var body: [UInt8] {
        let lines = [
            "{",
            "  \"format\": \"\(Self.formatName)\",",
            "  \"version\": \(Self.formatVersion),",
            "  \"store_id\": \"\(storeID)\",",
            "  \"epoch\": \(epoch),",
            "  \"generation\": \(generation),",
            "  \"created\": \(created),",
            "  \"page_bytes\": \(pageBytes),",
            "  \"pages\": \(pages),",
            "  \"database\": \(database.text),",
            "  \"sidecar\": \(sidecar.text),",
            "  \"library\": \"\(library)\",",
        ]
        return lines.flatMap { Array($0.utf8) + [UInt8(ascii: "\n")] }
    }

    static func lastLines(_ mac: [UInt8]) -> [UInt8] { Array("  \"mac\": \"\(Hex.text(mac))\"\n}\n".utf8) }

    /// A library's name for itself, without characters that would need escaping.
    static func printable(_ text: String) -> String {
        String(
            decoding: text.utf8.filter { (0x20...0x7e).contains($0) && $0 != 0x22 && $0 != 0x5c }.prefix(64),
            as: UTF8.self)
    }
}

extension BackupManifest.File {
    fileprivate var text: String {
        "{\"name\": \"\(name)\", \"bytes\": \(byteCount), \"sha256\": \"\(Hex.text(sha256))\"}"
    }
}

/// A parsed manifest that is not authenticated yet.
package struct ReadManifest: Hashable, Sendable {
    package let manifest: BackupManifest
    let mac: [UInt8]

    /// The bytes of the file.
    package var bytes: [UInt8] { manifest.body + BackupManifest.lastLines(mac) }
}
