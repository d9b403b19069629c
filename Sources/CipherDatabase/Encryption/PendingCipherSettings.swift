import KeyCustody
import StoreCrypto

/// The salt and the cipher settings collected so far for a key that was given to a connection: a value without I/O.
///
/// Each pragma after the key may change it, until the file is first accessed. SQLCipher accepts those pragmas in any
/// order, so nothing is derived before.
struct PendingCipherSettings {
    /// The origin of the salt.
    enum SaltOrigin {
        /// The first 16 bytes of an existing file.
        case file
        /// Generated for a new file.
        case generated
        /// The preparing function set it.
        case user
        /// An existing file with a plaintext header and no sidecar: the salt is unknown unless the user sets it.
        case unknown
    }

    /// Whether the file has no bytes yet.
    let isNewFile: Bool
    private(set) var salt: Salt?
    private(set) var saltOrigin: SaltOrigin
    private(set) var settings: CipherSettings
    /// Whether all settings are among those that a store records; with others SQLCipher derives the key itself.
    private(set) var isModelled = true

    init(
        isNewFile: Bool, salt: Salt?, saltOrigin: SaltOrigin, settings: CipherSettings = .sqlCipher4
    ) {
        self.isNewFile = isNewFile
        self.salt = salt
        self.saltOrigin = saltOrigin
        self.settings = settings
    }

    /// Whether the salt must be kept outside the file.
    var needsSidecar: Bool { settings.plaintextHeaderBytes > 0 }

    /// Applies a setting.
    ///
    /// - Returns: Why it is refused; nil when it was applied.
    mutating func apply(_ setting: CipherPragma.Setting, value: String) -> String? {
        switch setting {
        case .plaintextHeader:
            guard let bytes = Int(value), bytes == 0 || bytes == 32 else {
                return "the plaintext header has 32 bytes, or none (0)"
            }
            settings.plaintextHeaderBytes = bytes
        case .salt:
            guard let salt = try? Salt(sqlCipherLiteral: value) else {
                return "a salt is written x'...' with exactly 32 hexadecimal digits"
            }
            if saltOrigin == .file && salt != self.salt { return "the file holds its own salt in its first 16 bytes" }
            self.salt = salt
            saltOrigin = .user
        case .pageBytes:
            guard let bytes = Int(value), (512...65_536).contains(bytes), bytes.nonzeroBitCount == 1 else {
                return "a page size is a power of two from 512 to 65536"
            }
            settings.pageBytes = bytes
        case .kdfRounds:
            guard let rounds = Int(value), (1...10_000_000).contains(rounds) else {
                return "the number of rounds goes from 1 to 10,000,000"
            }
            settings.kdfRounds = rounds
        case .kdfHash:
            guard let hash = Self.hash(value, prefix: "PBKDF2_HMAC_") else { return "no such key derivation" }
            settings.kdfHash = hash
        case .hmacHash:
            guard let hash = Self.hash(value, prefix: "HMAC_") else { return "no such page authentication" }
            settings.hmacHash = hash
        case .compatibility:
            applyCompatibility(value)
        case .fastRounds, .usesHMAC, .saltMask, .pageNumberOrder, .cipher:
            isModelled = false
        }
        return nil
    }

    private mutating func applyCompatibility(_ value: String) {
        var defaults: CipherSettings
        switch Int(value) {
        case 4: defaults = .sqlCipher4
        case 3: defaults = .sqlCipher3
        default:
            isModelled = false
            return
        }
        defaults.plaintextHeaderBytes = settings.plaintextHeaderBytes
        settings = defaults
    }

    private static func hash(_ value: String, prefix: String) -> HashAlgorithm? {
        let value = value.uppercased()
        guard value.hasPrefix(prefix) else { return nil }
        return HashAlgorithm(rawValue: value.dropFirst(prefix.count).lowercased())
    }
}

extension PendingCipherSettings {
    /// The settings requested after a key that has its settings already: initially the same.
    init(settled key: PageKey) {
        self.init(isNewFile: false, salt: key.salt, saltOrigin: .user, settings: key.settings)
    }

    /// Whether one setting is equal to the recorded one.
    func agrees(with key: PageKey, on setting: CipherPragma.Setting) -> Bool {
        let recorded = key.settings
        return switch setting {
        case .plaintextHeader: settings.plaintextHeaderBytes == recorded.plaintextHeaderBytes
        case .salt: salt == key.salt
        case .pageBytes: settings.pageBytes == recorded.pageBytes
        case .kdfRounds: settings.kdfRounds == recorded.kdfRounds
        case .kdfHash: settings.kdfHash == recorded.kdfHash
        case .hmacHash: settings.hmacHash == recorded.hmacHash
        case .compatibility: settings == recorded
        case .fastRounds, .usesHMAC, .saltMask, .pageNumberOrder, .cipher: false
        }
    }
}
