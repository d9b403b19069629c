import CipherDatabase

/// Tables of FTS3. New programs use ``FTS5``.
/// - SeeAlso: <https://www.sqlite.org/fts3.html>
public struct FTS3: VirtualTableModule, Sendable {
    public init() {}

    public var moduleName: String { "fts3" }
    public func makeTableDefinition(configuration: VirtualTableConfiguration) -> FTS3TableDefinition {
        FTS3TableDefinition()
    }

    public func moduleArguments(for definition: FTS3TableDefinition, in db: Database) throws -> [String] {
        definition.columns.map(ModuleArgument.column) + (definition.tokenizer.map { ["tokenize=\($0.spec)"] } ?? [])
    }

    public func database(_ db: Database, didCreate tableName: String, using definition: FTS3TableDefinition) throws {}

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

    /// The words that a tokenizer finds in a text.
    ///
    /// - Throws: `DatabaseError` where the linked SQLite has no FTS3.
    public static func tokenize(
        _ string: String, withTokenizer tokenizer: FTS3TokenizerDescriptor = .simple
    ) throws -> [String] {
        // Not for NUL, which is a part of words there.
        if tokenizer.spec == FTS3TokenizerDescriptor.simple.spec, !string.utf8.contains(0) {
            return SimpleTokens.tokens(of: string)
        }
        return try DatabaseQueue().write { db in
            let arguments = [tokenizer.name] + tokenizer.arguments.map(\.quotedDatabaseIdentifier)
            try db.execute(
                sql: "CREATE VIRTUAL TABLE tokens USING fts3tokenize(\(arguments.joined(separator: ", ")))")
            return try String.fetchAll(
                db, sql: "SELECT token FROM tokens WHERE input = ? ORDER BY position", arguments: [string])
        }
    }
}

/// The definition of an FTS3 table by a program.
public final class FTS3TableDefinition {
    fileprivate var columns: [String] = []
    /// How texts become words; nil for ``FTS3TokenizerDescriptor/simple``.
    public var tokenizer: FTS3TokenizerDescriptor?

    /// Adds a column.
    public func column(_ name: String) { columns.append(name) }
}

/// A tokenizer of FTS3 and FTS4.
/// - SeeAlso: <https://www.sqlite.org/fts3.html#tokenizer>
public struct FTS3TokenizerDescriptor: Sendable {
    let name: String
    let arguments: [String]

    /// As it stands after `tokenize=`.
    var spec: String { ([name] + arguments.map(\.quotedDatabaseIdentifier)).joined(separator: " ") }

    init(_ name: String, _ arguments: [String] = []) {
        self.name = name
        self.arguments = arguments
    }

    /// Words of ASCII letters and digits, and of all other characters; ASCII in lower case.
    public static let simple = FTS3TokenizerDescriptor("simple")
    /// As ``simple``, with English words by their stems.
    public static let porter = FTS3TokenizerDescriptor("porter")

    /// Words by the rules of Unicode.
    ///
    /// - Parameters:
    ///   - separators: Characters that stand between words, against the rules.
    ///   - tokenCharacters: Characters that belong to words, against the rules.
    public static func unicode61(
        diacritics: FTS3.Diacritics = .removeLegacy, separators: Set<Character> = [],
        tokenCharacters: Set<Character> = []
    ) -> FTS3TokenizerDescriptor {
        var arguments: [String] = []
        if diacritics != .removeLegacy { arguments.append("remove_diacritics=\(diacritics.number)") }
        if !separators.isEmpty { arguments.append("separators=" + String(separators.sorted())) }
        if !tokenCharacters.isEmpty { arguments.append("tokenchars=" + String(tokenCharacters.sorted())) }
        return FTS3TokenizerDescriptor("unicode61", arguments)
    }
}

/// Tables of FTS4.
/// - SeeAlso: <https://www.sqlite.org/fts3.html>
public struct FTS4: VirtualTableModule, Sendable {
    public init() {}

    public var moduleName: String { "fts4" }
    public func makeTableDefinition(configuration: VirtualTableConfiguration) -> FTS4TableDefinition {
        FTS4TableDefinition(configuration)
    }

    public func moduleArguments(for definition: FTS4TableDefinition, in db: Database) throws -> [String] {
        var arguments: [String] = []
        for column in definition.columns {
            if column.isLanguageID {
                arguments.append("languageid=\(column.name.quotedDatabaseIdentifier)")
                continue
            }
            let name = ModuleArgument.column(column.name)
            arguments.append(name)
            if !column.isIndexed { arguments.append("notindexed=" + name) }
        }
        if let tokenizer = definition.tokenizer { arguments.append("tokenize=\(tokenizer.spec)") }
        if let content = definition.content { arguments.append("content=\(content.quotedDatabaseIdentifier)") }
        if let name = definition.compress { arguments.append("compress=\(name.quotedDatabaseIdentifier)") }
        if let name = definition.uncompress { arguments.append("uncompress=\(name.quotedDatabaseIdentifier)") }
        if let matchinfo = definition.matchinfo { arguments.append("matchinfo=\(matchinfo.quotedDatabaseIdentifier)") }
        if let prefixes = definition.prefixes, !prefixes.isEmpty {
            let list = prefixes.sorted().map(String.init).joined(separator: ",")
            arguments.append("prefix=\(list.quotedDatabaseIdentifier)")
        }
        return arguments
    }

    public func database(_ db: Database, didCreate tableName: String, using definition: FTS4TableDefinition) throws {
        guard let content = definition.synchronizedTable else { return }
        if try Synchronization.rowIDName(of: content, db) != "rowid",
            try db.columns(in: content).contains(where: { $0.name.lowercasedASCII == "rowid" })
        {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "a column of table \(content) has the name rowid: an FTS4 table cannot be synchronized with it"
            )
        }
        let sync = Synchronization(
            contentTable: content, fullTextTable: tableName, columns: definition.columns.map(\.name),
            configuration: definition.configuration)
        try sync.begin(db)
    }
}

/// The definition of an FTS4 table by a program.
public final class FTS4TableDefinition {
    fileprivate let configuration: VirtualTableConfiguration
    fileprivate private(set) var columns: [FTS4ColumnDefinition] = []
    fileprivate private(set) var synchronizedTable: String?
    /// How texts become words; nil for ``FTS3TokenizerDescriptor/simple``.
    public var tokenizer: FTS3TokenizerDescriptor?
    /// The table that holds the texts; empty for a table that only holds the index.
    /// Setting it ends what ``synchronize(withTable:)`` has begun.
    public var content: String? {
        didSet { synchronizedTable = nil }
    }
    /// The name of an SQL function that makes texts shorter.
    public var compress: String?
    /// The name of the SQL function that undoes ``compress``.
    public var uncompress: String?
    /// `fts3` for less information on the words of a document.
    public var matchinfo: String?
    /// The lengths of prefixes that are indexed.
    public var prefixes: Set<Int>?

    fileprivate init(_ configuration: VirtualTableConfiguration) { self.configuration = configuration }

    /// Adds a column.
    @discardableResult
    public func column(_ name: String) -> FTS4ColumnDefinition {
        let column = FTS4ColumnDefinition(name)
        columns.append(column)
        return column
    }

    /// Takes the texts from a table, and stays the same as that table, by triggers on it.
    ///
    /// A statement fails with `SQLITE_CONSTRAINT_TRIGGER` if its `REPLACE` would remove a row, or if its `UPDATE` would
    /// store a default value instead of NULL: FTS4 needs the text of a row to remove its words, and ``FTS5`` does not. A
    /// trigger of the program that calls `RAISE(IGNORE)` can keep the index from following a change. A VACUUM may give
    /// other rowids to rows without a declared key: this library then makes the index again.
    ///
    /// The triggers outlive the full-text table: see `Database.dropFTS4SynchronizationTriggers(forTable:)`. The next
    /// opening for writing makes those of earlier versions again, and the index if it does not fit its table.
    public func synchronize(withTable tableName: String) {
        content = tableName
        synchronizedTable = tableName
    }
}

/// A column of an FTS4 table.
public final class FTS4ColumnDefinition {
    fileprivate let name: String
    fileprivate private(set) var isIndexed = true
    fileprivate private(set) var isLanguageID = false

    fileprivate init(_ name: String) { self.name = name }

    /// The column's words are not found.
    @discardableResult
    public func notIndexed() -> Self {
        isIndexed = false
        return self
    }

    /// The column holds the language of the row, for its tokenizer.
    @discardableResult
    public func asLanguageId() -> Self {
        isLanguageID = true
        return self
    }
}

extension Database {
    /// Drops the triggers by which an FTS4 table followed another table. To be called when the FTS4 table is dropped.
    public func dropFTS4SynchronizationTriggers(forTable tableName: String) throws {
        try DisplacedRows.drop(of: tableName, self)
    }
}
