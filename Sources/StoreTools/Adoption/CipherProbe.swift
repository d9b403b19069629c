import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// Finds the settings under which a key opens a standard SQLCipher file, by the authentication code of page 1.
struct CipherProbe {
    /// The first bytes of the file: one page of any size.
    let first: [UInt8]
    let fileBytes: Int
    let salt: Salt
    let key: UnlockedKey

    /// Settings and key of the file.
    struct Found {
        let settings: CipherSettings
        let dataKey: DataKey

        func codec(_ salt: Salt, _ settings: CipherSettings) throws -> PageCodec {
            try dataKey.withSecret { try PageCodec(dataKey: $0, salt: salt.bytes, settings: settings) }
        }
    }

    /// Versions whose pages have an authentication code.
    private static let versions = 2...4

    /// Whether the length is a multiple of the smallest page.
    var isWholeBlocks: Bool { fileBytes % 512 == 0 }

    /// Reads the beginning of a file.
    init(_ path: String, salt: Salt, key: UnlockedKey) throws {
        let file = try RawFile(path)
        first = try file.bytes(at: 0, count: 65_536)
        fileBytes = try file.byteCount
        self.salt = salt
        self.key = key
    }

    /// Proves that the key opens the file as one of a version.
    ///
    /// - Returns: Settings and key of the file; nil for version 1, whose pages prove nothing.
    /// - Throws: `StoreError` `wrongKey`; ``ToolError`` when the file is of another version.
    func prove(_ path: String, version: Int) throws -> Found? {
        if let found = try find(version: version) { return found }
        for other in Self.versions.reversed() where other != version {
            guard try find(version: other) != nil else { continue }
            throw ToolError(
                .otherVersion, what: "\"\(path)\" is a file of SQLCipher \(other).",
                why: "The key opens it with the settings of that version.",
                remedy: other == 4 ? "Leave out --compatibility." : "Give --compatibility \(other).")
        }
        // Its pages prove nothing: the content decides.
        if version == 1, isWholeBlocks { return nil }
        let keys = try otherKeys()
        if let found = try find(keys) {
            guard version == 4 else {
                throw otherVersion(path, "4 with a derivation of its own", "Leave out --compatibility.")
            }
            return found
        }
        if let version = try versionWithoutCode(keys) { throw withoutCode(path, version) }
        throw StoreError(
            .wrongKey, what: "The key does not open \"\(path)\".",
            why:
                "Page 1 fits it under the settings of no version of SQLCipher from 1 to 4, with no number of rounds that "
                + "is usual, with and without authentication codes.",
            remedy:
                "Check the key. If the file was made with PRAGMA kdf_iter, or another derivation that is not usual, give "
                + "the data key itself (--raw-key-file).")
    }

    private func otherVersion(_ path: String, _ version: String, _ remedy: String) -> ToolError {
        ToolError(
            .otherVersion, what: "\"\(path)\" is a file of SQLCipher \(version).",
            why: "The key opens it with the settings of that version.", remedy: remedy)
    }

    private func withoutCode(_ path: String, _ version: Int) -> ToolError {
        if version == 1 { return otherVersion(path, "1", "Give --compatibility 1.") }
        return ToolError(
            .notAdoptable, what: "\"\(path)\" cannot be adopted.",
            why:
                "The key is right, but the pages have no authentication codes (PRAGMA cipher_use_hmac = OFF). A store has "
                + "them.",
            remedy:
                "Let a program that opens the file copy it with the default settings of SQLCipher 4: ATTACH a new file "
                + "with the key, then SELECT sqlcipher_export. Adopt the copy. The file was left as it is.")
    }

    // MARK: Derivations and pages that are not a default

    /// The derivations of the versions, and of files that were made with PRAGMA kdf_iter or cipher_kdf_algorithm.
    private static let derivations: [CipherSettings] = HashAlgorithm.allCases.reversed().flatMap { hash in
        [256_000, 64_000, 4000, 100_000, 10_000, 1000].map { rounds in
            CipherSettings(kdfRounds: rounds, kdfHash: hash)
        }
    }

    /// The keys under other derivations than those of the versions. A raw key is derived by none.
    private func otherKeys() throws -> [(derivation: CipherSettings, dataKey: DataKey)] {
        let derivations = key.isPassphrase ? Self.derivations : [.sqlCipher4]
        return try derivations.map { ($0, try key.dataKey(salt: salt, settings: $0)) }
    }

    /// A match of version 4 under another derivation of the key; nil when none matches.
    private func find(_ keys: [(derivation: CipherSettings, dataKey: DataKey)]) throws -> Found? {
        for (derivation, dataKey) in keys {
            if let found = try find(dataKey, Self.candidates(derivation, 4)) { return found }
        }
        return nil
    }

    /// The version of SQLCipher, if page 1 has SQLite's header and no authentication code under one of the keys; nil for
    /// none. Version 1 has no codes; the others can be told to have none.
    private func versionWithoutCode(
        _ keys: [(derivation: CipherSettings, dataKey: DataKey)]
    ) throws -> Int? {
        for (derivation, dataKey) in keys {
            for power in 10...16 where try fits(1 << power) && hasHeader(dataKey, pageBytes: 1 << power) {
                let mayBeFirst = !key.isPassphrase || (derivation.kdfRounds, derivation.kdfHash) == (4000, .sha1)
                return mayBeFirst && power == 10 ? 1 : 4
            }
        }
        return nil
    }

    /// Whether page 1 of a size, decrypted with a vector at its end, has the fixed bytes of SQLite's header.
    private func hasHeader(_ dataKey: DataKey, pageBytes: Int) throws -> Bool {
        var plain = [UInt8](repeating: 0, count: PageCipher.blockBytes)
        let vector = Array(first[pageBytes - PageCipher.initializationVectorBytes..<pageBytes])
        let block = Array(first[Salt.byteCount..<Salt.byteCount + PageCipher.blockBytes])
        try dataKey.withSecret { secret in
            var cipher = try PageCipher(key: secret)
            try vector.withUnsafeBytes { vector in
                guard let vector = vector.baseAddress else { return }
                try block.withUnsafeBytes { block in
                    try plain.withUnsafeMutableBytes {
                        try cipher.decrypt(block, initializationVector: vector, into: $0)
                    }
                }
            }
        }
        let fixed = DatabaseHeader.Offset.maximumPayloadFraction - Salt.byteCount
        let size = DatabaseHeader.decodePageBytes(UInt16(plain[0]) << 8 | UInt16(plain[1]))
        return size == pageBytes && Array(plain[fixed..<fixed + 3]) == DatabaseHeader.payloadFractions
    }

    /// The key of the file's pages under the settings of any version, the newest first; nil when none matches.
    ///
    /// - Throws: The errors of deriving the key.
    func anyKey() throws -> PageKey? {
        for version in Self.versions.reversed() {
            if let found = try find(version: version) {
                return PageKey(found.dataKey, salt: salt, settings: found.settings)
            }
        }
        return nil
    }

    /// - Parameter version: SQLCipher's major version, which determines the derivation of the key.
    /// - Returns: The match, for any page size and, for version 4, any page authentication; nil when none matches.
    private func find(version: Int) throws -> Found? {
        guard let defaults = Self.defaults(of: version) else { return nil }
        return try find(key.dataKey(salt: salt, settings: defaults), Self.candidates(defaults, version))
    }

    private func find(_ dataKey: DataKey, _ candidates: [CipherSettings]) throws -> Found? {
        for settings in candidates where fits(settings.pageBytes) {
            let found = Found(settings: settings, dataKey: dataKey)
            var codec = try found.codec(salt, settings)
            if first.prefix(settings.pageBytes).withUnsafeBytes({ codec.verify($0, number: 1) }) { return found }
        }
        return nil
    }

    /// Page 1 alone decides: a file that lost a part of its last page is reported as truncated, not as one of another
    /// key.
    private func fits(_ pageBytes: Int) -> Bool { fileBytes >= pageBytes && first.count >= pageBytes }

    private static func defaults(of version: Int) -> CipherSettings? {
        switch version {
        case 4: .sqlCipher4
        case 3: .sqlCipher3
        case 2: CipherSettings(pageBytes: 1024, kdfRounds: 4000, kdfHash: .sha1, hmacHash: .sha1)
        default: nil
        }
    }

    /// The default first: nearly every file has it.
    private static func candidates(_ defaults: CipherSettings, _ version: Int) -> [CipherSettings] {
        let hashes: [HashAlgorithm] = version == 4 ? [.sha512, .sha256, .sha1] : [.sha1]
        let sizes = (10...16).map { 1 << $0 }
        return [defaults]
            + hashes.flatMap { hash in
                sizes.map { size in
                    var settings = defaults
                    settings.hmacHash = hash
                    settings.pageBytes = size
                    return settings
                }
            }
    }
}
