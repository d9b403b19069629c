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
        throw StoreError(
            .wrongKey, what: "The key does not open \"\(path)\".",
            why: "The authentication code of page 1 fits it under the settings of no version from 2 to 4.",
            remedy: "Check the key. For a file of SQLCipher 1 give --compatibility 1.")
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
        let dataKey = try key.dataKey(salt: salt, settings: defaults)
        for settings in Self.candidates(defaults, version) where fits(settings.pageBytes) {
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
