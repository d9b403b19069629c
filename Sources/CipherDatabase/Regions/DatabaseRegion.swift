/// A part of a database, by tables, columns and rowids: what a request reads, and what a change of rows touches.
///
/// ```swift
/// let region = try Player.filter(id: 1).databaseRegion(db)  // player(id,name)[1]
/// ```
public struct DatabaseRegion: Equatable, Sendable {
    /// The parts of tables; nil for the whole database. No part of it is empty.
    private var tables: [Name: Part]?

    /// A name of the schema, which is compared as SQLite does.
    private struct Name: Hashable, Comparable {
        let text: String
        private let folded: String

        init(_ text: String) {
            self.text = text
            folded = text.lowercasedASCII
        }

        static func == (left: Name, right: Name) -> Bool { left.folded == right.folded }
        static func < (left: Name, right: Name) -> Bool { (left.folded, left.text) < (right.folded, right.text) }
        func hash(into hasher: inout Hasher) { hasher.combine(folded) }
    }

    /// A part of one table.
    private struct Part: Equatable {
        /// Nil for all columns.
        var columns: Set<Name>?
        /// Nil for all rows.
        var rowIDs: Set<Int64>?

        var isEmpty: Bool { columns?.isEmpty == true || rowIDs?.isEmpty == true }

        func union(_ other: Part) -> Part {
            Part(
                columns: both(columns, other.columns) { $0.union($1) },
                rowIDs: both(rowIDs, other.rowIDs) { $0.union($1) })
        }

        func intersection(_ other: Part) -> Part {
            Part(
                columns: either(columns, other.columns) { $0.intersection($1) },
                rowIDs: either(rowIDs, other.rowIDs) { $0.intersection($1) })
        }

        private func both<T>(_ left: T?, _ right: T?, _ join: (T, T) -> T) -> T? {
            if let left, let right { join(left, right) } else { nil }
        }

        private func either<T>(_ left: T?, _ right: T?, _ join: (T, T) -> T) -> T? {
            if let left, let right { join(left, right) } else { left ?? right }
        }
    }

    private init(tables: [Name: Part]?) { self.tables = tables?.filter { !$0.value.isEmpty } }

    /// The empty region.
    public init() { tables = [:] }

    /// The whole database.
    public static let fullDatabase = DatabaseRegion(tables: nil)

    /// A table.
    public init(table: String) { self.init(tables: [Name(table): Part()]) }

    /// Columns of a table, in all of its rows.
    public init(table: String, columns: Set<String>) {
        self.init(tables: [Name(table): Part(columns: Set(columns.map(Name.init)))])
    }

    /// Rows of a table, by their rowids.
    public init(table: String, rowIds: Set<Int64>) { self.init(tables: [Name(table): Part(rowIDs: rowIds)]) }

    // MARK: Combining

    /// Whether nothing belongs to the region, so that no change touches it.
    public var isEmpty: Bool { tables?.isEmpty == true }

    /// Whether the whole database belongs to the region.
    public var isFullDatabase: Bool { tables == nil }

    /// The union of two regions. Of two parts of one table the smallest region of columns and rows is returned that
    /// covers both.
    public func union(_ other: DatabaseRegion) -> DatabaseRegion {
        var union = self
        union.formUnion(other)
        return union
    }

    /// Adds another region.
    public mutating func formUnion(_ other: DatabaseRegion) {
        guard let tables, !other.isEmpty else { return }
        // Without a copy: most fetches run one statement.
        if tables.isEmpty { return self = other }
        self.tables = other.tables.map { tables.merging($0) { $0.union($1) } }
    }

    /// The intersection of two regions.
    public func intersection(_ other: DatabaseRegion) -> DatabaseRegion {
        guard let tables else { return other }
        guard let others = other.tables else { return self }
        var common: [Name: Part] = [:]
        for (name, part) in tables {
            if let other = others[name] { common[name] = part.intersection(other) }
        }
        return DatabaseRegion(tables: common)
    }

    // MARK: Changes

    /// Whether events of a kind may touch the region.
    public func isModified(byEventsOfKind eventKind: DatabaseEventKind) -> Bool {
        guard let tables else { return true }
        guard let part = tables[Name(eventKind.tableName)] else { return false }
        guard case .update(_, let columns) = eventKind, let observed = part.columns else { return true }
        return columns.contains { observed.contains(Name($0)) }
    }

    /// Whether an event touches the region. The event must be of a kind for which ``isModified(byEventsOfKind:)`` is
    /// true, or of none that was announced, as those of the hidden tables of a virtual table: such a change counts.
    public func isModified(by event: DatabaseEvent) -> Bool {
        guard let tables, let part = tables[Name(event.tableName)], let rowIDs = part.rowIDs else { return true }
        return event.concernsOtherRows || rowIDs.contains(event.rowID)
    }

    /// The kinds of changes that touch the region.
    ///
    /// - Parameter columns: The columns of a table. For the whole database `tables` is what there is.
    package func eventKinds(
        tables all: () throws -> [String], columns: (String) throws -> [String]
    ) rethrows -> [DatabaseEventKind] {
        let parts = try tables ?? Dictionary(all().map { (Name($0), Part()) }, uniquingKeysWith: { first, _ in first })
        return try parts.sorted { $0.key < $1.key }.flatMap { name, part -> [DatabaseEventKind] in
            let columns = try part.columns.map { $0.map(\.text) } ?? columns(name.text)
            return [
                .insert(tableName: name.text), .delete(tableName: name.text),
                .update(tableName: name.text, columnNames: Set(columns)),
            ]
        }
    }

    // MARK: Tables

    /// Whether a table is named, so that not the whole database is meant.
    package func names(_ table: String) -> Bool { tables?[Name(table)] != nil }

    /// The names of the tables; nil for the whole database.
    var tableNames: [String]? { tables.map { $0.keys.map(\.text) } }

    /// The region without the tables that a condition excludes, whose names are written as it returns them.
    func compactMapTables(_ transform: (String) throws -> String?) rethrows -> DatabaseRegion {
        guard let tables else { return self }
        var kept = DatabaseRegion()
        for (name, part) in tables {
            guard let text = try transform(name.text) else { continue }
            kept.formUnion(DatabaseRegion(tables: [Name(text): part]))
        }
        return kept
    }

    /// The region with all columns of the tables that meet a condition, which gets the name and the columns of a table.
    func coveringAllColumns(where condition: (String, [String]) throws -> Bool) rethrows -> DatabaseRegion {
        guard var covering = tables else { return self }
        for (name, part) in covering {
            guard let columns = part.columns, try condition(name.text, columns.map(\.text)) else { continue }
            covering[name]?.columns = nil
        }
        return DatabaseRegion(tables: covering)
    }

    /// The region with only some rows of one table, whose other rows it does not need.
    package func narrowing(_ table: String, toRowIDs rowIDs: Set<Int64>) -> DatabaseRegion {
        guard var tables, let part = tables[Name(table)] else { return self }
        tables[Name(table)] = part.intersection(Part(rowIDs: rowIDs))
        return DatabaseRegion(tables: tables)
    }
}

extension DatabaseRegion: CustomStringConvertible {
    /// As in `player(id,name)[1,2],team(*)`; `empty` and `full database`.
    public var description: String {
        guard let tables else { return "full database" }
        if tables.isEmpty { return "empty" }
        return tables.sorted { $0.key < $1.key }.map { name, part in
            let columns = part.columns.map { $0.sorted().map(\.text).joined(separator: ",") } ?? "*"
            let rows = part.rowIDs.map { "[\($0.sorted().map(String.init).joined(separator: ","))]" } ?? ""
            return "\(name.text)(\(columns))\(rows)"
        }.joined(separator: ",")
    }
}

// MARK: - What stands for a region

/// A value that stands for a part of a database, as requests do. An observation may find its region again on any
/// thread.
public protocol DatabaseRegionConvertible: Sendable {
    /// The region, by the schema of the connection.
    ///
    /// - Throws: ``DatabaseError``, as for a table that does not exist.
    func databaseRegion(_ db: Database) throws -> DatabaseRegion
}

extension DatabaseRegion: DatabaseRegionConvertible {
    public func databaseRegion(_ db: Database) throws -> DatabaseRegion { self }
}

extension DatabaseRegionConvertible where Self == DatabaseRegion {
    /// The whole database.
    public static var fullDatabase: DatabaseRegion { DatabaseRegion.fullDatabase }
}

/// A region of any kind, or one that a function makes.
public struct AnyDatabaseRegionConvertible: DatabaseRegionConvertible {
    private let region: @Sendable (Database) throws -> DatabaseRegion

    /// - Parameter region: Finds the region. It runs in an access, on the thread of that access.
    public init(_ region: @escaping @Sendable (Database) throws -> DatabaseRegion) { self.region = region }

    public init(_ base: some DatabaseRegionConvertible) { region = { try base.databaseRegion($0) } }

    public func databaseRegion(_ db: Database) throws -> DatabaseRegion { try region(db) }
}

extension DatabaseRegion {
    /// The region of all of them.
    package static func union(_ regions: [any DatabaseRegionConvertible], _ db: Database) throws -> DatabaseRegion {
        try regions.reduce(into: DatabaseRegion()) { union, region in union.formUnion(try region.databaseRegion(db)) }
    }

    /// The region without views, which have no rows of their own, and without the tables that SQLite itself changes
    /// unseen. Tables are named as they were created.
    package func observable(_ db: Database) throws -> DatabaseRegion {
        if let known = db.features[StatementWatch.key]?.takeObservableReads(of: self) { return known }
        let observable = try existing(db).coveringGeneratedColumns(db)
        db.watch.observableReads = ObservableReads(region: self, observable: observable)
        return observable
    }

    /// The region without views and without tables that do not exist. Tables are named as they were created.
    package func existing(_ db: Database) throws -> DatabaseRegion {
        try compactMapTables { name in
            // Changes of the schema are seen where the program reports them.
            try db.nameOfTable(name) ?? Database.nameOfSchemaTable(name)
        }
    }
}
