import CipherStore
import PageFormat

/// Writes what is salvaged into a new, empty database.
final class SalvageCopy {
    private let source: SalvageSource
    private let db: Database
    private let program: Configuration
    private let run: ToolRun
    private var trees: [SalvagedTree] = []
    /// The trees of which nothing is copied: the store's own tables, and the secrets of a sync repository.
    private var leftOut: [SalvagedTree] = []
    private var schema: [SchemaEntry] = []
    private var statements: [String: Statement] = [:]
    private(set) var outcome = SalvageOutcome()
    private var listings: [String: Int] = [:]
    private var counter: RowCounter
    /// Whether the source has the tables of a sync repository.
    private var leavesRepositoryOut = false
    /// The tables whose rows are inserted as values.
    private var definitions: [SalvagedDefinition] = []
    /// Their keys that only the program can make, by the names of the tables.
    private var keys: [String: SalvagedKeys] = [:]

    /// - Parameters:
    ///   - db: Inside a transaction; its schema may be written (`writable_schema`).
    ///   - program: Its `prepareDatabase` has given the connection what the schema needs.
    init(_ source: SalvageSource, into db: Database, program: Configuration, _ run: ToolRun) {
        self.source = source
        self.db = db
        self.program = program
        self.run = run
        counter = RowCounter(run, .copyingRows)
    }

    /// - Throws: `DatabaseError`; the errors of reading; `CancellationError`.
    func write() throws {
        var assignment = PageAssignment(pages: source.pages, kinds: source.kinds, free: source.free)
        try readSchema(&assignment)
        try createTables()
        for index in trees.indices { try assignment.walk(&trees[index]) }
        let groups = try assignment.takeGroups()
        try place(groups)
        for definition in definitions {
            keys[definition.entry.name] = try SalvagedKeys(definition.values, source, trees, in: db)
        }
        for tree in trees where tree.entry.name != Self.sequenceTable { try copyRows(of: tree) }
        outcome.indexPages = PageRanges(trees.filter { $0.entry.type == "index" }.flatMap { $0.lost.map(\.page) })
        if let tree = trees.first(where: { $0.entry.name == Self.sequenceTable }), tree.table != nil {
            // Filled by the inserted rows; what is salvaged of it may name higher numbers.
            try db.execute(sql: "DELETE FROM main.\(Self.sequenceTable)")
            try copyRows(of: tree)
        }
        try completeSequences()
        for made in keys.values { try made.fill() }
        try enterDefinitions()
        try createTheRest()
        try db.execute(sql: "PRAGMA main.user_version = \(source.userVersion)")
        try db.execute(sql: "PRAGMA main.application_id = \(source.applicationID)")
        outcome.settle(lost: source.lostPages)
    }

    private static let sequenceTable = "sqlite_sequence"

    // MARK: Schema

    private func readSchema(_ assignment: inout PageAssignment) throws {
        let own = SchemaEntry(type: "table", name: "sqlite_schema", table: "sqlite_schema", hasPages: true, sql: nil)
        var tree = SalvagedTree(entry: own, root: TableReader.schemaRoot)
        try assignment.walk(&tree)
        var pages = tree.pages
        outcome.lostSchemaPages = tree.lost.map(\.page)
        if !tree.lost.isEmpty { pages += try assignment.takeLeaves(where: isSchema) }
        var known: Set<String> = []
        for page in pages {
            try source.forEachRow(of: page) { row in
                guard case .row(_, let values) = row, let (entry, root) = source.schemaEntry(values) else {
                    outcome.lostSchemaRows += 1
                    return
                }
                guard known.insert("\(entry.type) \(entry.name)").inserted else { return }
                // The new store writes its own; the pages have their place nevertheless.
                if RollbackTable.isNamed(entry.table) || entry.isOfRepository {
                    if entry.isOfRepository, !leavesRepositoryOut {
                        leavesRepositoryOut = true
                        run.notice(SchemaEntry.repositoryLeftOut)
                    }
                    if root > 0 { leftOut.append(SalvagedTree(entry: entry, root: root)) }
                    return
                }
                schema.append(entry)
                if root > 0 { trees.append(SalvagedTree(entry: entry, root: root)) }
            }
        }
        for index in leftOut.indices {
            leftOut[index].isIndexTree = leftOut[index].entry.type == "index" || leftOut[index].entry.isWithoutRowID
            try assignment.walk(&leftOut[index])
        }
    }

    /// Whether all rows of a page are entries of a schema.
    private func isSchema(_ page: UInt32) throws -> Bool {
        var (rows, others) = (0, 0)
        try source.forEachRow(of: page) { row in
            guard case .row(_, let values) = row else { return }
            if source.schemaEntry(values) == nil { others += 1 } else { rows += 1 }
        }
        return rows > 0 && others == 0
    }

    private func createTables() throws {
        for index in trees.indices {
            let entry = trees[index].entry
            guard entry.type == "table" else {
                trees[index].isIndexTree = true
                continue
            }
            if entry.name != Self.sequenceTable, let sql = entry.sql {
                do {
                    if let definition = try SalvagedDefinition(entry, in: db, program: program) {
                        try definition.values.create(in: db)
                        try definition.values.createKnownKeys(in: db)
                        definitions.append(definition)
                        trees[index].table = definition.table
                    } else {
                        try db.makeStatement(sql: sql).execute()
                    }
                } catch let error as DatabaseError {
                    outcome.notCreated.append("table \"\(entry.name)\": \(error.message ?? error.description)")
                    trees[index].isIndexTree = source.kinds[trees[index].root]?.isTable == false
                    continue
                }
            }
        }
        if trees.contains(where: { $0.entry.name == Self.sequenceTable }),
            try !db.tableExists(Self.sequenceTable, in: "main")
        {
            // SQLite creates it with the first AUTOINCREMENT; the store may have dropped the last of those.
            try db.execute(sql: "CREATE TABLE main.\(Self.sequenceTable)(name,seq)")
        }
        for index in trees.indices where trees[index].entry.type == "table" {
            let name = trees[index].entry.name
            guard try db.tableExists(name, in: "main") else { continue }
            let table = try trees[index].table ?? SalvagedTable(name, in: db)
            trees[index].table = table
            trees[index].isIndexTree = table.isWithoutRowID
        }
    }

    /// Names the highest row id of each table with AUTOINCREMENT whose entry in `sqlite_sequence` is lost, or was not
    /// written because its rows were inserted as values.
    private func completeSequences() throws {
        for tree in trees where tree.table != nil && tree.entry.sql?.namesAutoincrement == true {
            try db.execute(
                sql: """
                    INSERT INTO main.\(Self.sequenceTable) (name, seq)
                    SELECT ?1, max(rowid) FROM main.\(tree.entry.name.quotedIdentifier)
                    WHERE NOT EXISTS (SELECT 1 FROM main.\(Self.sequenceTable) WHERE name = ?1)
                    HAVING max(rowid) IS NOT NULL
                    """, arguments: [tree.entry.name])
        }
    }

    /// Gives the tables whose rows were inserted as values their definitions, as text.
    private func enterDefinitions() throws {
        guard !definitions.isEmpty else { return }
        for definition in definitions {
            try db.execute(
                sql: "UPDATE main.sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?",
                arguments: [definition.entry.sql, definition.entry.name])
        }
        // SQLite reads the schema again.
        try db.execute(sql: "PRAGMA writable_schema = RESET; PRAGMA writable_schema = ON")
        for definition in definitions { try definition.values.removeHelpers(in: db) }
    }

    private func createIndex(_ entry: SchemaEntry, _ sql: String) throws {
        do {
            try db.makeStatement(sql: sql).execute()
        } catch let error as DatabaseError {
            let missing = try MissingParts(ofIndex: sql, in: db).names
            let needs = definitions.first { $0.entry.name.lowercasedASCII == entry.table.lowercasedASCII }?.needs ?? []
            if missing.isEmpty, needs.isEmpty || error.resultCode.primaryResultCode != .SQLITE_ERROR {
                outcome.notCreated.append("index \"\(entry.name)\": \(error.message ?? error.description)")
            } else {
                outcome.leftOut.append(
                    LeftOutIndex(
                        name: entry.name, table: entry.table, needs: Set(missing).union(needs).sorted()))
            }
        }
    }

    /// Indexes, views, triggers and virtual tables.
    private func createTheRest() throws {
        for entry in schema where entry.type == "index" {
            if let sql = entry.sql { try createIndex(entry, sql) }
        }
        // They consist only of their text; running it would create a virtual table's shadow tables a second time.
        let others = schema.filter { !$0.hasPages }
        var names: Set<String> = []
        var virtual: [VirtualTable] = []
        for entry in others.filter({ $0.type != "trigger" }) + others.filter({ $0.type == "trigger" }) {
            if let table = VirtualTable(entry) {
                let lost = try table.shadowTables.first { try !db.tableExists($0, in: "main") }
                if let lost {
                    outcome.notCreated.append(
                        "table \"\(entry.name)\": its table \"\(lost)\" is lost" + (try advice(for: table)))
                    continue
                }
                let data = "\(entry.name)_data"
                if try db.tableExists(data, in: "main"), let fault = try FullTextStructure.fault(ofTable: data, in: db)
                {
                    outcome.notCreated.append("table \"\(entry.name)\": \(fault)")
                    continue
                }
                virtual.append(table)
            }
            if entry.type != "trigger" {
                names.insert(entry.name.lowercased())
            } else if try !names.contains(entry.table.lowercased()) && !db.tableExists(entry.table, in: "main") {
                // SQLite refuses the whole schema where the table of a trigger is missing.
                outcome.notCreated.append("trigger \"\(entry.name)\": its table \"\(entry.table)\" is lost")
                continue
            }
            try db.execute(
                sql: "INSERT INTO main.sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, 0, ?)",
                arguments: [entry.type, entry.name, entry.table, entry.sql])
        }
        try removeUnusable(virtual)
    }

    /// Removes virtual tables that SQLite cannot use, such as one whose settings are lost: it could not read the schema.
    private func removeUnusable(_ tables: [VirtualTable]) throws {
        guard !tables.isEmpty else { return }
        // SQLite reads the schema again.
        try db.execute(sql: "PRAGMA writable_schema = RESET")
        let failures = try tables.compactMap { table in try table.failure(in: db).map { (table, $0) } }
        let advices = try failures.map { table, _ in try advice(for: table) }
        try db.execute(sql: "PRAGMA writable_schema = ON")
        for ((table, reason), advice) in zip(failures, advices) {
            outcome.notCreated.append(
                "table \"\(table.name)\": SQLite cannot use what is left of it (\(reason))\(advice)")
            try db.execute(
                sql: "DELETE FROM main.sqlite_schema WHERE type = 'table' AND rootpage = 0 AND name = ?",
                arguments: [table.name])
        }
    }

    /// The sentence that says where the texts of a full-text table are; empty for none.
    private func advice(for table: VirtualTable) throws -> String {
        guard let content = table.contentTable, try db.tableExists(content, in: "main") else { return "" }
        return
            ". Its rows are in the table \"\(content)\": create a full-text table of another name, and insert them there"
    }

    // MARK: Pages below lost ones

    private func place(_ groups: [PageAssignment.Group]) throws {
        for group in groups {
            let candidates = try trees.indices.filter { try fits(group, trees[$0]) }
            // Nothing else can have them: no secret becomes a row of an unknown table.
            if candidates.isEmpty, try leftOut.contains(where: { try fits(group, $0) }) { continue }
            let tables = candidates.filter { trees[$0].entry.type == "table" }
            if tables.isEmpty, !candidates.isEmpty { continue }
            if candidates.count == 1, let only = tables.first, trees[only].table != nil {
                trees[only].matchedPages += group.pages
                continue
            }
            let names = tables.map { trees[$0].entry.name }.sorted()
            // The entries of an index that nothing names look like rows of a table WITHOUT ROWID.
            let mayBeEntries = group.isIndexTree && tables.isEmpty
            for page in group.pages { try list(page, candidates: names, mayBeEntries: mayBeEntries) }
        }
    }

    /// Whether a group can be a part of a tree: pages of it are lost above, and all rows are like its own.
    private func fits(_ group: PageAssignment.Group, _ tree: SalvagedTree) throws -> Bool {
        guard tree.isIndexTree == group.isIndexTree, tree.lost.contains(where: group.canBeBelow) else { return false }
        guard let table = tree.table else { return true }
        var (fits, seen) = (true, 0)
        for page in group.pages where fits && seen < ToolLimits.comparedRows {
            try source.forEachRow(of: page) { row in
                guard case .row(_, let values) = row else { return }
                seen += 1
                if !table.fits(values) { fits = false }
            }
        }
        return fits
    }

    // MARK: Rows

    private func copyRows(of tree: SalvagedTree) throws {
        guard tree.entry.type == "table" else { return }
        var report = StoreSalvage.Table(name: tree.entry.name)
        report.lostPages = tree.lost.sorted { $0.page < $1.page }
        guard let table = tree.table else {
            for page in tree.pages { try list(page, candidates: [tree.entry.name]) }
            outcome.tables.append(report)
            return
        }
        if definitions.first(where: { $0.entry.name == tree.entry.name })?.values.isOrdered == true {
            try copyInOrder(tree, table, &report)
        } else {
            for page in tree.pages {
                try source.forEachRow(of: page) { try copy($0, page, table, &report, isMatched: false) }
            }
            for page in tree.matchedPages {
                try source.forEachRow(of: page) { try copy($0, page, table, &report, isMatched: true) }
            }
        }
        outcome.tables.append(report)
    }

    /// Copies rows whose order only the program knows; those without a certain place are listed.
    private func copyInOrder(
        _ tree: SalvagedTree, _ table: SalvagedTable, _ report: inout StoreSalvage.Table
    ) throws {
        if source.hasOlderPages(tree) {
            for page in tree.pages { try list(page, candidates: [table.name]) }
        } else {
            try source.forEachRowInOrder(of: tree) { page, row in
                try copy(row, page, table, &report, isMatched: false)
            }
        }
        for page in tree.matchedPages { try list(page, candidates: [table.name]) }
    }

    private func copy(
        _ row: SalvageSource.FoundRow, _ page: UInt32, _ table: SalvagedTable, _ report: inout StoreSalvage.Table,
        isMatched: Bool
    ) throws {
        switch row {
        case .lost(let rowID, let lost):
            report.lostRowCount += 1
            if report.lostRows.count < ToolLimits.listedRows {
                report.lostRows.append(StoreSalvage.LostRow(rowID: rowID, page: page, missingPage: lost))
            }
        case .doubtful(let rowID, let values):
            try counter.next(table: table.name)
            try list(values, rowID, page, candidates: [table.name])
        case .row(let rowID, let values):
            try counter.next(table: table.name)
            if try insert(values, rowID, into: table) {
                report.rowCount += 1
                if isMatched { report.matchedRowCount += 1 }
            } else {
                // Another row has its key, and one of them is of an older image; or the entry of a key is lost.
                try list(values, rowID, page, candidates: [table.name])
            }
        }
    }

    /// - Returns: Whether it could be inserted; false where a constraint forbids it.
    private func insert(_ values: [TableReader.Value], _ rowID: Int64?, into table: SalvagedTable) throws -> Bool {
        guard values.count <= table.columns.count else { return false }
        let columns = Array(zip(values, table.columns).filter { $0.1.isGiven })
        let added = table.asValues ? table.columns.dropFirst(values.count) : []
        var names = columns.map { $0.1.name.quotedIdentifier } + added.map(\.name.quotedIdentifier)
        var arguments = columns.map { value, column -> SalvagedValue in
            column.isRowID && value == .null && !table.asValues
                ? SalvagedValue(rowID?.databaseValue ?? .null) : source.argument(value)
        }
        arguments += added.map { SalvagedValue($0.added ?? .null) }
        if let rowID, let name = table.rowIDName, table.asValues || !columns.contains(where: { $0.1.isRowID }) {
            names.append(name)
            arguments.append(SalvagedValue(rowID.databaseValue))
        }
        if let keys = keys[table.name] {
            let given = columns.map(\.1.name) + added.map(\.name)
            let row = Dictionary(zip(given, arguments)) { first, _ in first }
            guard let rowID, try keys.haveEntries(of: row, rowID: rowID) else { return false }
        }
        return try insert(names, arguments, into: table)
    }

    /// Inserts a row, in two parts where its columns and its row id are more than a statement can have.
    private func insert(
        _ names: [String], _ arguments: [SalvagedValue], into table: SalvagedTable
    ) throws -> Bool {
        let name = "main.\(table.name.quotedIdentifier)"
        guard names.count > ToolLimits.resultColumns, let rowIDName = names.last, let rowID = arguments.last else {
            return try run(name, names, arguments)
        }
        let bound = ToolLimits.resultColumns - 1
        guard try run(name, names.prefix(bound) + [rowIDName], arguments.prefix(bound) + [rowID]) else { return false }
        let rest = zip(names, arguments).dropFirst(bound).dropLast()
        try db.execute(
            sql: "UPDATE \(name) SET \(rest.map { "\($0.0) = \($0.1.place)" }.joined(separator: ", ")) "
                + "WHERE \(rowIDName) = ?",
            arguments: StatementArguments(rest.map(\.1.value) + [rowID.value]))
        return true
    }

    private func run(_ table: String, _ names: [String], _ arguments: [SalvagedValue]) throws -> Bool {
        let places = arguments.map(\.place).joined(separator: ", ")
        let sql = "INSERT INTO \(table) (\(names.joined(separator: ", "))) VALUES (\(places))"
        let statement = try statements[sql] ?? db.makeStatement(sql: sql)
        statements[sql] = statement
        do {
            try statement.execute(arguments: StatementArguments(arguments.map(\.value)))
            return true
        } catch let error as DatabaseError
            where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode.primaryResultCode)
        {
            return false
        }
    }

    // MARK: Rows of unknown tables

    /// Lists the rows of a page whose table is not certain.
    private func list(_ page: UInt32, candidates: [String], mayBeEntries: Bool = false) throws {
        try source.forEachRow(of: page) { row in
            switch row {
            case .row(let rowID, let values), .doubtful(let rowID, let values):
                try counter.next()
                try list(values, rowID, page, candidates: candidates, mayBeEntries: mayBeEntries)
            case .lost: outcome.lostUnknownRows += 1
            }
        }
    }

    private func list(
        _ values: [TableReader.Value], _ rowID: Int64?, _ page: UInt32, candidates: [String],
        mayBeEntries: Bool = false
    ) throws {
        let count = min(values.count, ToolLimits.listedColumns)
        let index = try listing(columns: count, candidates, mayBeEntries)
        let names = ["page", "row_id"] + (0..<count).map { "c\($0)" }
        let arguments =
            [SalvagedValue(Int64(page).databaseValue), SalvagedValue(rowID?.databaseValue ?? .null)]
            + values.prefix(count).map(source.argument)
        if try run("main.\(outcome.listings[index].name)", names, arguments) { outcome.listings[index].rowCount += 1 }
    }

    /// The table for rows of one shape, which is created with the first of them.
    private func listing(columns: Int, _ candidates: [String], _ mayBeEntries: Bool) throws -> Int {
        let key = "\(columns) \(mayBeEntries) \(candidates)"
        if let index = listings[key] { return index }
        var number = outcome.listings.count + 1
        while try db.tableExists("salvaged_\(number)", in: "main") { number += 1 }
        let name = "salvaged_\(number)"
        let list = (0..<columns).map { ", c\($0)" }.joined()
        try db.execute(sql: "CREATE TABLE main.\(name) (page INTEGER, row_id INTEGER\(list))")
        outcome.listings.append(StoreSalvage.Listing(name: name, candidates: candidates, mayBeEntries: mayBeEntries))
        listings[key] = outcome.listings.count - 1
        return outcome.listings.count - 1
    }
}

/// The rows that a salvage found and lost.
struct SalvageOutcome: Sendable {
    var tables: [StoreSalvage.Table] = []
    var listings: [StoreSalvage.Listing] = []
    /// Pages of the schema that are lost.
    var lostSchemaPages: [UInt32] = []
    var lostSchemaRows = 0
    /// Tables, indexes and triggers that could not be created, each with its reason.
    var notCreated: [String] = []
    /// Indexes that only the program can build.
    var leftOut: [LeftOutIndex] = []
    /// Rows of unknown tables, a part of which is lost.
    var lostUnknownRows = 0
    /// Lost pages of indexes, which hold nothing that the tables do not.
    var indexPages = PageRanges()
    /// Lost pages of which no table is known.
    var unknownPages = PageRanges()

    /// Keeps of all lost pages those that no table and no index names.
    mutating func settle(lost: PageRanges) {
        var named = Set(tables.flatMap { $0.lostPages.map(\.page) } + lostSchemaPages)
        for table in tables { named.formUnion(table.lostRows.map(\.missingPage)) }
        named.formUnion(indexPages.ranges.lazy.joined())
        var unknown = PageRanges()
        for range in lost.ranges { unknown.append(range, without: named) }
        unknownPages = unknown
    }
}
