/// The pragmas that affect keys, page format or sharing, by how a connection handles them.
enum CipherPragma {
    /// Gives or changes a key as SQL text.
    case key
    /// Determines how the file is encrypted. Applied and recorded while a connection is prepared, refused afterwards.
    case setting(Setting)
    /// Changes the encryption of every connection of the process, or an operation that SQLCipher does not do safely.
    case forbidden
    /// Breaks what sharing depends on: checkpoints, locking mode, temporary files.
    case engine
    /// Any other pragma, and every form that only reads.
    case other

    /// The cipher settings that a store records.
    enum Setting: String {
        case plaintextHeader = "cipher_plaintext_header_size"
        case salt = "cipher_salt"
        case pageBytes = "cipher_page_size"
        case kdfRounds = "kdf_iter"
        case kdfHash = "cipher_kdf_algorithm"
        case hmacHash = "cipher_hmac_algorithm"
        case compatibility = "cipher_compatibility"
        /// Settings of SQLCipher before version 4, which only SQLCipher's own derivation supports.
        case fastRounds = "fast_kdf_iter"
        case usesHMAC = "cipher_use_hmac"
        case saltMask = "cipher_hmac_salt_mask"
        case pageNumberOrder = "cipher_hmac_pgno"
        case cipher = "cipher"
    }

    init(name: String, value: String?) {
        let name = name.lowercased()
        if Self.keyNames.contains(name) {
            self = .key
        } else if name == "cipher_migrate" || name == "wal_checkpoint" {
            // These have an effect without a value.
            self = name == "wal_checkpoint" ? .engine : .forbidden
        } else if value == nil {
            self = .other
        } else if let setting = Setting(rawValue: name) {
            self = .setting(setting)
        } else if name.hasPrefix("cipher_") {
            self =
                name == "cipher_log" || name == "cipher_log_level" || name == "cipher_log_source" ? .other : .forbidden
        } else if Self.engineNames.contains(name) {
            self = .engine
        } else {
            self = .other
        }
    }

    private static let keyNames: Set = ["key", "rekey", "hexkey", "hexrekey", "textkey", "textrekey"]
    private static let engineNames: Set = [
        "wal_autocheckpoint", "locking_mode", "temp_store", "temp_store_directory",
    ]

    // MARK: SQL text

    /// Whether a text could contain a key, so that it must not be in errors and traces.
    static func mayHoldKey(_ sql: String) -> Bool {
        let words = Set(words(of: sql))
        if words.contains("pragma") { return words.contains("cipher_salt") || !words.isDisjoint(with: keyNames) }
        return words.contains("attach") && words.contains("key")
    }

    /// The name of the pragma with which a text begins; nil when it begins with anything else.
    static func leadingPragma(of sql: String) -> String? {
        let text = sql.droppingLeadingComments()
        // Every statement that writes is asked for its pragma, and nearly none is a pragma.
        guard text.utf8.prefix(6).elementsEqual("pragma".utf8, by: { $0 | 0x20 == $1 }) else { return nil }
        let words = words(of: text.prefix(200)).prefix(3)
        guard words.first == "pragma", words.count > 1 else { return nil }
        let name = words[words.startIndex + 1]
        // `PRAGMA main.cipher_salt`
        return (name == "main" || name == "temp") && words.count > 2 ? words[words.startIndex + 2] : name
    }

    /// Whether a text begins with a pragma that may run before the file is opened, or contains no statement at all.
    static func comesBeforeFileAccess(_ sql: String) -> Bool {
        if sql.droppingLeadingComments().isEmpty { return true }
        guard let name = leadingPragma(of: sql) else { return false }
        return name.hasPrefix("cipher") || Setting(rawValue: name) != nil || keyNames.contains(name)
    }

    private static func words(of sql: some StringProtocol) -> [String] {
        sql.lowercased().split { !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init)
    }
}

extension String {
    /// The text up to the end of its first statement, including the semicolon. A trigger's definition is not
    /// recognized.
    var firstStatement: Substring {
        var rest = droppingLeadingComments()
        while let character = rest.first {
            switch character {
            case ";": return self[...rest.startIndex]
            case "'", "\"", "`":
                rest = rest.dropFirst().drop { $0 != character }.dropFirst()
            case "-" where rest.hasPrefix("--"):
                rest = rest.drop { !$0.isNewline }
            case "/" where rest.hasPrefix("/*"):
                rest = rest.firstRange(of: "*/").map { rest[$0.upperBound...] } ?? ""
            default:
                rest = rest.dropFirst()
            }
        }
        return self[...]
    }

    /// The text from its first statement on, without the blanks, semicolons and comments before it.
    package func droppingLeadingComments() -> Substring {
        var rest = self[...]
        // Nearly every text begins with a word.
        if let first = utf8.first, UInt8(ascii: "a")...UInt8(ascii: "z") ~= first | 0x20 { return rest }
        while true {
            rest = rest.drop { $0.isWhitespace || $0 == ";" }
            if rest.hasPrefix("--") {
                rest = rest.drop { !$0.isNewline }
            } else if rest.hasPrefix("/*") {
                guard let end = rest.firstRange(of: "*/") else { return "" }
                rest = rest[end.upperBound...]
            } else {
                return rest
            }
        }
    }
}
