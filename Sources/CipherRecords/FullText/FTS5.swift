import CipherDatabase

/// Tables of FTS5, SQLite's full-text search.
///
/// ```swift
/// try db.create(virtualTable: "message_ft", using: FTS5()) { t in
///     t.synchronize(withTable: "message")
///     t.tokenizer = .porter(wrapping: .unicode61())
///     t.column("text")
/// }
/// let found = try Message.joining(required: Message.index.matching(pattern)).fetchAll(db)
/// ```
/// - SeeAlso: <https://www.sqlite.org/fts5.html>
public struct FTS5: VirtualTableModule, Sendable {
    public init() {}

    /// SQLite's interface to FTS5, for C code that adds tokenizers or functions. It lives as long as the connection.
    ///
    /// Traps where SQLite was built without FTS5.
    public static func api(_ db: Database) -> UnsafePointer<FullTextInterface.Pointee> {
        guard let interface = db.fullTextInterface else { preconditionFailure("this SQLCipher was built without FTS5") }
        return UnsafePointer(interface)
    }

    public var moduleName: String { "fts5" }
    public func makeTableDefinition(configuration: VirtualTableConfiguration) -> FTS5TableDefinition {
        FTS5TableDefinition(configuration)
    }

    public func moduleArguments(for definition: FTS5TableDefinition, in db: Database) throws -> [String] {
        var arguments = definition.columns.map {
            ModuleArgument.column($0.name) + ($0.isIndexed ? "" : " UNINDEXED")
        }
        if let tokenizer = definition.tokenizer {
            if tokenizer.components.isEmpty {
                throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "a tokenizer must have a name")
            }
            let spec = tokenizer.components.map(ModuleArgument.quoted).joined(separator: " ")
            arguments.append("tokenize=" + ModuleArgument.quoted(spec))
        }
        if let content = definition.content { arguments.append("content=" + ModuleArgument.quoted(content)) }
        var rowID = definition.contentRowID
        if let table = definition.synchronizedTable {
            let name = try Synchronization.rowIDName(of: table, db)
            // FTS5's own default.
            rowID = name == "rowid" ? nil : name
        }
        if let rowID { arguments.append("content_rowid=" + ModuleArgument.quoted(rowID)) }
        if let prefixes = definition.prefixes, !prefixes.isEmpty {
            let list = prefixes.sorted().map(String.init).joined(separator: " ")
            arguments.append("prefix=" + ModuleArgument.quoted(list))
        }
        if let size = definition.columnSize { arguments.append("columnSize=\(size)") }
        if let detail = definition.detail { arguments.append("detail=\(detail)") }
        return arguments
    }

    public func database(_ db: Database, didCreate tableName: String, using definition: FTS5TableDefinition) throws {
        guard let content = definition.synchronizedTable else { return }
        let sync = Synchronization(
            contentTable: content, fullTextTable: tableName, columns: definition.columns.map(\.name),
            configuration: definition.configuration)
        try sync.begin(db)
    }

    /// The treatment of accents and other marks by a tokenizer.
    public enum Diacritics: Sendable {
        /// They count.
        case keep
        /// They are removed from most letters, as older versions of SQLite did.
        case removeLegacy
        /// They are removed.
        case remove

        var number: Int {
            switch self {
            case .keep: 0
            case .removeLegacy: 1
            case .remove: 2
            }
        }
    }

    /// Whether a trigram tokenizer tells upper case from lower case.
    public struct TrigramCaseSensitiveOption: RawRepresentable, Hashable, Sendable, ExpressibleByBooleanLiteral {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        public init(booleanLiteral value: Bool) { rawValue = value ? 1 : 0 }
    }

    /// The treatment of accents and other marks by a trigram tokenizer.
    public struct TrigramDiacriticsOption: RawRepresentable, Hashable, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// They count.
        public static let keep = TrigramDiacriticsOption(rawValue: 0)
        /// They are removed.
        public static let remove = TrigramDiacriticsOption(rawValue: 1)
    }
}

/// The definition of an FTS5 table by a program.
public final class FTS5TableDefinition {
    fileprivate let configuration: VirtualTableConfiguration
    fileprivate private(set) var columns: [FTS5ColumnDefinition] = []
    fileprivate private(set) var synchronizedTable: String?
    /// How texts become words; nil for `unicode61`.
    public var tokenizer: FTS5TokenizerDescriptor?
    /// The table that holds the texts; empty for a table that only holds the index. Setting it ends what
    /// ``synchronize(withTable:)`` has begun.
    public var content: String? {
        didSet { synchronizedTable = nil }
    }
    /// The column of ``content`` by which its rows are found; nil for its rowid. Setting it ends what
    /// ``synchronize(withTable:)`` has begun.
    public var contentRowID: String? {
        didSet { if synchronizedTable != nil { content = nil } }
    }
    /// The lengths of prefixes that are indexed.
    public var prefixes: Set<Int>?
    /// 0 for a table that does not store how long each text is.
    public var columnSize: Int?
    /// `column` or `none` for a smaller index.
    public var detail: String?

    fileprivate init(_ configuration: VirtualTableConfiguration) { self.configuration = configuration }

    /// Adds a column.
    @discardableResult
    public func column(_ name: String) -> FTS5ColumnDefinition {
        let column = FTS5ColumnDefinition(name)
        columns.append(column)
        return column
    }

    /// Takes the texts from a table, and stays the same as that table, by triggers on it.
    ///
    /// It follows rows that a `REPLACE` removes too, and unique indexes that are created later; and it is made again after
    /// a VACUUM of this library that gave other rowids to rows without a declared key.
    ///
    /// Create a trigger of the program that changes an indexed text, or deletes its row, before the full-text table. A
    /// later one runs before those of the index, which then has words that the table does not have. After such a
    /// trigger, drop the triggers of the index, and make the full-text table again.
    ///
    /// The triggers outlive the full-text table: see `Database.dropFTS5SynchronizationTriggers(forTable:)`. The next
    /// opening for writing makes those of earlier versions again, and the index if it does not fit its table.
    public func synchronize(withTable tableName: String) {
        contentRowID = nil
        content = tableName
        synchronizedTable = tableName
    }
}

/// A column of an FTS5 table.
public final class FTS5ColumnDefinition {
    fileprivate let name: String
    fileprivate private(set) var isIndexed = true

    fileprivate init(_ name: String) { self.name = name }

    /// The column's words are not found.
    @discardableResult
    public func notIndexed() -> Self {
        isIndexed = false
        return self
    }
}

/// A tokenizer of FTS5.
/// - SeeAlso: <https://www.sqlite.org/fts5.html#tokenizers>
public struct FTS5TokenizerDescriptor: Sendable {
    /// The name of the tokenizer and its arguments.
    public let components: [String]

    public init(components: [String]) { self.components = components }

    /// Words of ASCII letters and digits, and of all other characters; ASCII in lower case.
    ///
    /// - Parameters:
    ///   - separators: Characters that stand between words, against the rules.
    ///   - tokenCharacters: Characters that belong to words, against the rules.
    public static func ascii(
        separators: Set<Character> = [], tokenCharacters: Set<Character> = []
    ) -> FTS5TokenizerDescriptor {
        FTS5TokenizerDescriptor(components: ["ascii"] + characters(separators, tokenCharacters))
    }

    /// English words by their stems, as another tokenizer finds them.
    public static func porter(wrapping base: FTS5TokenizerDescriptor? = nil) -> FTS5TokenizerDescriptor {
        FTS5TokenizerDescriptor(components: ["porter"] + (base?.components ?? []))
    }

    /// Words by the rules of Unicode.
    ///
    /// - Parameters:
    ///   - categories: The categories of characters that belong to words, as in `L* N* Co`; nil for these.
    ///   - separators: Characters that stand between words, against the rules.
    ///   - tokenCharacters: Characters that belong to words, against the rules.
    public static func unicode61(
        diacritics: FTS5.Diacritics = .removeLegacy, categories: String = "", separators: Set<Character> = [],
        tokenCharacters: Set<Character> = []
    ) -> FTS5TokenizerDescriptor {
        var components = ["unicode61"]
        if diacritics != .removeLegacy { components += ["remove_diacritics", String(diacritics.number)] }
        if !categories.isEmpty { components += ["categories", categories] }
        return FTS5TokenizerDescriptor(components: components + characters(separators, tokenCharacters))
    }

    /// Sequences of three characters, so that any part of a text of three characters or more is found.
    ///
    /// - Parameters:
    ///   - caseSensitive: nil for SQLite's default: no.
    ///   - removeDiacritics: nil for SQLite's default: they count. SQLite 3.45 and later; not together with
    ///     `caseSensitive: true`.
    /// - SeeAlso: <https://www.sqlite.org/fts5.html#the_trigram_tokenizer>
    public static func trigram(
        caseSensitive: FTS5.TrigramCaseSensitiveOption? = nil, removeDiacritics: FTS5.TrigramDiacriticsOption? = nil
    ) -> FTS5TokenizerDescriptor {
        var components = ["trigram"]
        if let caseSensitive { components += ["case_sensitive", String(caseSensitive.rawValue)] }
        if let removeDiacritics { components += ["remove_diacritics", String(removeDiacritics.rawValue)] }
        return FTS5TokenizerDescriptor(components: components)
    }

    private static func characters(_ separators: Set<Character>, _ tokenCharacters: Set<Character>) -> [String] {
        var components: [String] = []
        if !separators.isEmpty { components += ["separators", String(separators.sorted())] }
        if !tokenCharacters.isEmpty { components += ["tokenchars", String(tokenCharacters.sorted())] }
        return components
    }
}

extension Database {
    /// Drops the triggers by which an FTS5 table followed another table. To be called when the FTS5 table is dropped.
    public func dropFTS5SynchronizationTriggers(forTable tableName: String) throws {
        try DisplacedRows.drop(of: tableName, self)
    }
}
