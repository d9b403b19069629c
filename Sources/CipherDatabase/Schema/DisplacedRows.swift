/// The triggers by which a full-text table follows another table through statements that replace rows.
///
/// SQLite fires no trigger for a row that a `REPLACE` removes, unless `recursive_triggers` is on. So a trigger notes,
/// before the row is written, which rows have the keys of the new one. The trigger that runs after it finds those that are
/// gone. A row that is noted and stays is harmless: its note has the values that the row has. If a cascade deletes the row
/// that is written, the triggers of that deletion find those that are gone.
///
/// | statement | rows with the same key | their notes |
/// |---|---|---|
/// | INSERT, UPDATE | none, or the statement fails | rolled back with it |
/// | ... OR REPLACE | gone | their words are removed from the index, and the notes |
/// | ... OR IGNORE, ON CONFLICT DO NOTHING | stay | stay, until the row changes; the oldest are removed |
/// | ON CONFLICT DO UPDATE | one is updated | that of the row is updated |
///
/// FTS4 needs the text of a row to remove its words, and the text is gone after a `REPLACE`: the statement fails instead.
/// So its trigger removes the words before an update, unless the update may be refused by a key, a NOT NULL or a CHECK:
///
/// | statement that may be refused | row | words |
/// |---|---|---|
/// | UPDATE, OR ABORT, OR ROLLBACK, OR FAIL | stays, or the statement is rolled back | stay |
/// | UPDATE OR IGNORE | stays | stay |
/// | UPDATE OR REPLACE, or REPLACE in the definition | changes | the statement fails |
///
/// `RAISE(IGNORE)` in a trigger of the program ends the triggers here too: no trigger can follow that.
///
/// SQLite runs the actions of foreign keys before the AFTER triggers of the row that caused them. If that row refers to
/// itself, or a REPLACE removes its parent, an action changes it while the index still has its words of before: its new
/// values, or nothing, may be there under its new rowid. For a table with such actions
///
/// - the note of the row that is updated keeps the words that the index has, as long as the update runs (`own` counts
///   the updates of the row, one inside another);
/// - these words are removed by the note, and the row is then added as the table has it, unless the index has it.
package struct DisplacedRows {
    /// A trigger: its name, and what follows the name in its definition.
    struct Trigger {
        let name: String
        let body: String
        /// As SQLite stores it.
        var definition: String { "CREATE TRIGGER \(name.quotedDatabaseIdentifier) \(body)" }
    }

    /// The most notes of rows that stay. A trigger of the program may write other rows between a note and its use.
    static let notes = 16
    /// The most notes of rows that are being updated: SQLite does not nest triggers deeper.
    ///
    /// - SeeAlso: <https://www.sqlite.org/limits.html#max_trigger_depth>
    private static let ownNotes = 1_000
    private static let prefix = "cipherstore_displaced_"

    private let index: FullTextIndex
    /// The table that the full-text table follows.
    package let content: String
    /// The full-text table.
    var indexName: String { index.name }
    private let rowID: String
    private let columns: [String]
    /// Whether the triggers are in the temporary schema.
    let isTemporary: Bool

    /// - Parameters:
    ///   - rowID: The name of the content's rowid.
    ///   - columns: The columns of the full-text table that take their values from the content.
    ///   - isTemporary: Whether the full-text table is in the temporary schema.
    /// - Returns: Nil for a full-text table without content of the program.
    package init?(_ index: FullTextIndex, rowID: String, columns: [String], isTemporary: Bool) {
        guard case .table(let content) = index.content else { return nil }
        (self.index, self.content, self.rowID) = (index, content, rowID)
        let language = index.languageID.map { [$0] } ?? []
        self.columns = columns.filter { $0.lowercasedASCII != language.first?.lowercasedASCII } + language
        self.isTemporary = isTemporary
    }

    private var table: String { content.quotedDatabaseIdentifier }
    private var fullText: String { index.name.quotedDatabaseIdentifier }
    private var noteTable: String { Self.noteTable(of: index.name) }
    private func id(of row: String) -> String { "\(row).\(rowID.quotedDatabaseIdentifier)" }
    private var noted: String { (["id"] + columns.indices.map { "c\($0)" }).joined(separator: ", ") }

    package static func noteTable(of fullTextTable: String) -> String {
        (prefix + fullTextTable).quotedDatabaseIdentifier
    }

    // MARK: The triggers

    /// The triggers, which depend on the keys of the content.
    ///
    /// - Throws: ``DatabaseError`` for a content that cannot be followed.
    func triggers(_ db: Database) throws -> [Trigger] {
        let schema = try isTemporary && db.tableExists(content, in: "temp") ? "temp" : "main"
        let conditions: [String]
        do {
            conditions = try TableFacts.replacementConditions(of: content, in: db, schema: schema)
        } catch let error as HistoryError {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "a full-text table cannot be synchronized with \(content): \(error.message)")
        }
        let update = try updateEvent(db, schema: schema)
        let mayNest = try mayNest(db, schema: schema)
        if index.module == .fts5 { return fts5(conditions, update, mayNest: mayNest) }
        return fts4(conditions, update, refusals: try refusals(db, schema: schema), mayNest: mayNest)
    }

    /// Whether actions of foreign keys may update a row while it is updated. The triggers then look up in the table of sizes
    /// which rows the index has. An option leaves that table out; the triggers are then those of other tables.
    private func mayNest(_ db: Database, schema: String) throws -> Bool {
        let actions = try Set(
            String.fetchAll(
                db,
                sql: "SELECT on_update FROM pragma_foreign_key_list(?1, ?2) "
                    + "UNION SELECT on_delete FROM pragma_foreign_key_list(?1, ?2)", arguments: [content, schema]))
        return try !actions.isSubset(of: ["NO ACTION", "RESTRICT"]) && db.tableExists(sizes, in: self.schema)
    }

    private var sizes: String { index.name + "_docsize" }

    private func isIndexed(_ row: String) -> String {
        "EXISTS (SELECT 1 FROM \(sizes.quotedDatabaseIdentifier) WHERE "
            + "\(index.module == .fts5 ? "id" : "docid") = \(id(of: row)))"
    }

    /// Adds a row as the table has it, unless the index has it.
    private var insertPresent: String {
        "INSERT INTO \(fullText)(\(names)) SELECT \(values(of: table)) FROM \(table) "
            + "WHERE \(id(of: table)) = \(id(of: "new")) AND NOT \(isIndexed("new"))"
    }

    /// Conditions each of which is true if a NOT NULL or a CHECK refuses the new row.
    private func refusals(_ db: Database, schema: String) throws -> [String] {
        let columns = try db.columns(in: content, in: schema)
        let required = columns.filter { $0.isNotNull && $0.name != rowID }
        let table = DatabaseObjectID(schemaID: DatabaseSchemaID(name: schema), name: content)
        let definition = try String.fetchOne(
            db, sql: "SELECT sql FROM \(schema).sqlite_schema WHERE type = 'table' AND name = ?",
            arguments: [db.stored("table", table)?.name])
        return required.map { "new.\($0.name.quotedDatabaseIdentifier) IS NULL" }
            + CheckConstraints.violations(of: definition ?? "", columns: columns.map(\.name))
    }

    /// `UPDATE OF` the columns that are indexed or can displace a row; `UPDATE` if these are not known.
    ///
    /// SQLite compares the names that a statement sets with this list, and the rowid has several names. A key with an
    /// expression or a condition, and a generated column, may depend on any column.
    private func updateEvent(_ db: Database, schema: String) throws -> String {
        let table = try Row.fetchAll(
            db, sql: "SELECT name, pk, hidden FROM pragma_table_xinfo(?, ?)", arguments: [content, schema])
        if table.contains(where: { $0[2] as Int != 0 }) { return "UPDATE" }
        var relevant = Set((columns + [rowID]).map(\.lowercasedASCII))
        for row in table where row[1] as Int > 0 { relevant.insert((row[0] as String).lowercasedASCII) }
        let keys = try Row.fetchAll(
            db,
            sql: """
                SELECT i.name, i.partial, c.cid, c.name FROM pragma_index_list(?1, ?2) i, pragma_index_xinfo(i.name, ?2) c
                WHERE i."unique" AND c.key
                """, arguments: [content, schema])
        for row in keys {
            guard row[1] as Int == 0, row[2] as Int != -2, let name = row[3] as String? else { return "UPDATE" }
            relevant.insert(name.lowercasedASCII)
        }
        let names = table.map { $0[0] as String }
        let listed = names.filter { relevant.contains($0.lowercasedASCII) }
        if listed.count == names.count { return "UPDATE" }
        let all = listed + RowIDName.visible(beside: names)
        return "UPDATE OF \(all.map(\.quotedDatabaseIdentifier).joined(separator: ", "))"
    }

    private func fts5(_ conditions: [String], _ update: String, mayNest: Bool) -> [Trigger] {
        let remove = "INSERT INTO \(fullText)(\(fullText), \(names)) SELECT 'delete', \(noted) FROM \(noteTable)"
        let insert = "INSERT INTO \(fullText)(\(names)) VALUES (\(values(of: "new")))"
        let delete = "INSERT INTO \(fullText)(\(fullText), \(names)) VALUES('delete', \(values(of: "old")))"
        func follow(_ condition: String) -> [String] {
            ["\(remove) WHERE \(condition)", "DELETE FROM \(noteTable) WHERE \(condition)"]
        }
        let (old, new) = (id(of: "old"), id(of: "new"))
        let isThis = "id = \(old)"
        let noteThis: [String]
        let replace: [String]
        if mayNest {
            let hasNote = "EXISTS (SELECT 1 FROM \(noteTable) WHERE \(isThis))"
            let isThere = "EXISTS (SELECT 1 FROM \(table) WHERE \(id(of: table)) = \(new))"
            let present = "SELECT \(values(of: table)) FROM \(table) WHERE \(id(of: table)) = \(new)"
            noteThis = [
                "UPDATE \(noteTable) SET own = own + 1 WHERE \(isThis)",
                "INSERT INTO \(noteTable)(own, \(noted)) "
                    + "SELECT 1, \(values(of: "old")) WHERE \(isIndexed("old")) AND NOT \(hasNote)",
            ]
            replace = [
                "\(remove) WHERE \(isThis)", insertPresent,
                "DELETE FROM \(noteTable) WHERE \(isThis) AND (own = 1 OR NOT \(isThere))",
                "UPDATE \(noteTable) SET own = own - 1, (\(noted)) = (\(present)) WHERE \(isThis)",
            ]
        } else {
            let present = (["id = \(new)"] + columns.enumerated().map { "c\($0) = new.\($1.quotedDatabaseIdentifier)" })
                .joined(separator: ", ")
            // A trigger of the program may change a row before the REPLACE removes it: its note has what the index has.
            (noteThis, replace) = ([], ["UPDATE \(noteTable) SET \(present) WHERE \(isThis)", delete, insert])
        }
        return [
            // Before other notes: this may be the action of a foreign key, or a trigger, in the middle of a REPLACE.
            trigger("ri", "BEFORE INSERT", follow(isGone) + note(rows(conditions), mayNest: mayNest)),
            trigger(
                "ru", "BEFORE \(update)",
                follow(isGone) + note(otherRows(conditions), mayNest: mayNest) + noteThis),
            trigger("ai", "AFTER INSERT", follow("id = \(new) OR \(isGone)") + [insert]),
            // Before a cascade of the deletion: to that, only rows that a REPLACE has removed are gone and noted.
            trigger("bd", "BEFORE DELETE", [forget]),
            trigger("ad", "AFTER DELETE", [forget] + follow(isGone) + [delete]),
            trigger("au", "AFTER \(update)", follow("id <> \(old) AND (id = \(new) OR \(isGone))") + replace),
        ]
    }

    private func fts4(_ conditions: [String], _ update: String, refusals: [String], mayNest: Bool) -> [Trigger] {
        let insert = "INSERT INTO \(fullText)(\(names)) VALUES(\(values(of: "new")))"
        let delete = "DELETE FROM \(fullText) WHERE docid=\(id(of: "old"))"
        let isNoted = "EXISTS (SELECT 1 FROM \(noteTable) WHERE id = \(id(of: "old")))"
        // With OR IGNORE such an update does nothing, and fires no further trigger: the words must stay.
        let isDoubtful = (["EXISTS (\(otherRows(conditions)))"] + refusals).joinedAsExpression(by: " OR ")
        // Of an action of a foreign key, in the middle of a REPLACE.
        let refuseReplaced = "\(refusal(ofUpdate: false)) WHERE \(hasDisplaced(isGone))"
        let doubt = "INSERT INTO \(noteTable)(id) SELECT \(id(of: "old")) WHERE \(isDoubtful)"
        return [
            trigger("ri", "BEFORE INSERT", note(rows(conditions))),
            trigger(
                "bu", "BEFORE \(update)",
                [refuseReplaced] + note(otherRows(conditions))
                    + [forget, doubt, "\(delete) AND NOT \(isNoted)\(mayNest ? " AND \(isIndexed("old"))" : "")"]),
            trigger("bd", "BEFORE DELETE", [forget, refuseReplaced, delete]),
            trigger(
                "au", "AFTER \(update)",
                ["\(refusal(ofUpdate: true)) WHERE \(isNoted)", mayNest ? insertPresent : insert]),
            trigger(
                "ai", "AFTER INSERT",
                ["\(refusal(ofUpdate: false)) WHERE \(hasDisplaced("id = \(id(of: "new")) OR \(isGone)"))", insert]),
        ]
    }

    private func refusal(ofUpdate: Bool) -> String {
        let reason =
            ofUpdate
            ? "the full-text table \(index.name) cannot follow this update: it replaces another row, or NULL by a default "
                + "value, and FTS4 needs the text of a row before that. Delete the other row first, give the value "
                + "itself, or use FTS5"
            : "the full-text table \(index.name) cannot follow REPLACE, because FTS4 lacks the text of the removed row: "
                + "delete that row first, or use FTS5"
        return "SELECT RAISE(ABORT, '\(reason.replacing("'", with: "''"))')"
    }

    private var forget: String { "DELETE FROM \(noteTable) WHERE id = \(id(of: "old"))" }

    /// The rows that have a key of the new one.
    private func rows(_ conditions: [String], and other: String = "") -> String {
        conditions.map { "SELECT \(id(of: table)) FROM \(table) WHERE (\($0))\(other)" }.joined(separator: " UNION ")
    }

    private func otherRows(_ conditions: [String]) -> String {
        rows(conditions, and: " AND \(id(of: table)) <> \(id(of: "old"))")
    }

    private func hasDisplaced(_ condition: String) -> String {
        "EXISTS (SELECT 1 FROM \(noteTable) WHERE \(condition))"
    }

    /// Whether a noted row was replaced.
    private var isGone: String {
        "NOT EXISTS (SELECT 1 FROM \(table) WHERE \(id(of: table)) = \(noteTable).id)"
    }

    /// Notes rows, and removes the oldest notes.
    private func note(_ rows: String, mayNest: Bool = false) -> [String] {
        let values = ([rowID] + (index.module == .fts5 ? columns : [])).map(\.quotedDatabaseIdentifier)
        let names = index.module == .fts5 ? noted : "id"
        func isOlder(than count: Int) -> String { "n <= (SELECT max(n) FROM \(noteTable)) - \(count)" }
        let (isNamed, isOld) = ("id IN (\(rows))", isOlder(than: Self.notes))
        return [
            // Not by OR REPLACE: the conflict clause of the statement that fires a trigger counts there.
            // The note of a row that is being updated has what the index has: the row itself may differ.
            "DELETE FROM \(noteTable) WHERE "
                + (mayNest
                    ? "own IS NULL AND (\(isNamed) OR \(isOld)) OR \(isGone) OR \(isOlder(than: Self.ownNotes))"
                    : "\(isNamed) OR \(isGone) OR \(isOld)"),
            "INSERT INTO \(noteTable)(\(names)) SELECT \(values.joined(separator: ", ")) FROM \(table) "
                + "WHERE \(id(of: table)) IN (\(rows))"
                + (mayNest ? " AND \(id(of: table)) NOT IN (SELECT id FROM \(noteTable))" : ""),
        ]
    }

    private var names: String {
        ([index.module == .fts5 ? "rowid" : "docid"] + columns).map(\.quotedDatabaseIdentifier).joined(separator: ", ")
    }

    private func values(of row: String) -> String {
        ([rowID] + columns).map { "\(row).\($0.quotedDatabaseIdentifier)" }.joined(separator: ", ")
    }

    private func trigger(_ suffix: String, _ event: String, _ statements: [String]) -> Trigger {
        let body = statements.map { "    \($0);\n" }.joined()
        return Trigger(
            name: Self.trigger(suffix, of: index.name), body: "\(event) ON \(table) BEGIN\n\(body)END")
    }

    private static func trigger(_ suffix: String, of fullTextTable: String) -> String { "__\(fullTextTable)_\(suffix)" }

    private static func triggerNames(of fullTextTable: String) -> [String] {
        ["ri", "ru", "ai", "ad", "au", "bu", "bd"].map { trigger($0, of: fullTextTable) }
    }
}

extension DisplacedRows {
    // MARK: Creating and dropping

    /// The schema of the full-text table.
    private var schema: String { isTemporary ? "temp" : "main" }

    /// Creates the triggers, in the place of those that differ; of all, if a trigger of the program would fire first.
    ///
    /// - Returns: Whether one was missing or different, so that the full-text table may have missed changes.
    @discardableResult
    package func create(_ db: Database) throws -> Bool {
        let all = try triggers(db)
        let areLate = try firesLate(db)
        let rows = try Row.fetchAll(
            db, sql: "SELECT name, sql, tbl_name FROM \(schema).sqlite_schema WHERE type = 'trigger'"
        ).filter { ($0[2] as String).lowercasedASCII == content.lowercasedASCII }
        let existing = Dictionary(rows.map { ($0[0] as String, $0[1] as String) }) { first, _ in first }
        let name = Self.prefix + index.name
        let changed = all.filter { areLate || existing[$0.name] != $0.definition }
        if try changed.isEmpty && db.tableExists(name, in: schema) { return false }
        let columns = index.module == .fts5 ? self.columns.indices.map { ", c\($0)" }.joined() : ""
        try FullTextUpkeep.change(db) {
            try db.withoutHistoryUpkeep {
                try db.execute(sql: "DROP TABLE IF EXISTS \(schema).\(noteTable)")
                try db.execute(
                    sql:
                        "CREATE TABLE \(schema).\(noteTable) (n INTEGER PRIMARY KEY, id INTEGER, own INTEGER\(columns))"
                )
            }
            if !isTemporary { db.features[FullTextUpkeep.key]?.follows(index.name) }
            for trigger in changed {
                let quoted = trigger.name.quotedDatabaseIdentifier
                try db.execute(sql: "DROP TRIGGER IF EXISTS \(schema).\(quoted)")
                try db.execute(sql: "CREATE TRIGGER \(schema).\(quoted) \(trigger.body)")
            }
        }
        return true
    }

    /// Drops the triggers of a full-text table, and what they need.
    package static func drop(of fullTextTable: String, _ db: Database) throws {
        try FullTextUpkeep.change(db) {
            for name in triggerNames(of: fullTextTable) {
                try db.execute(sql: "DROP TRIGGER IF EXISTS \(name.quotedDatabaseIdentifier)")
            }
            try db.withoutHistoryUpkeep { try db.execute(sql: "DROP TABLE IF EXISTS \(noteTable(of: fullTextTable))") }
        }
    }

    // MARK: Following the keys of the content

    /// Whether all triggers are there as they have to be, in whatever order.
    func isComplete(_ db: Database) throws -> Bool {
        let existing = try Set(contentTriggers(db).map(\.sql))
        return try triggers(db).allSatisfy { existing.contains($0.definition) }
    }

    /// Whether the triggers are there, on the content. DROP TABLE drops those of the table.
    func isFollowing(_ db: Database) throws -> Bool {
        try contentTriggers(db).contains { $0.name == Self.trigger("ai", of: index.name) }
    }

    /// The triggers of the content in the schema of the full-text table, in the order of their creation.
    private func contentTriggers(_ db: Database) throws -> [(name: String, sql: String)] {
        let sql = "SELECT tbl_name, name, sql FROM \(schema).sqlite_schema WHERE type = 'trigger' ORDER BY rowid"
        return try Row.fetchAll(db.statement(forFetching: sql)).compactMap { row in
            let isOfContent = (row[0] as String).lowercasedASCII == content.lowercasedASCII
            return isOfContent ? (row[1], row[2] as String? ?? "") : nil
        }
    }

    /// Whether a trigger of the program was created after these, so that it fires before them. If it changes a row that has
    /// just been written, these would see the two changes in the wrong order.
    private func firesLate(_ db: Database) throws -> Bool {
        let own = Set(try FullTextIndex.all(in: schema, db).flatMap { Self.triggerNames(of: $0.name) })
        let names = try contentTriggers(db).map(\.name)
        guard let first = names.firstIndex(where: Set(Self.triggerNames(of: index.name)).contains) else { return false }
        return names[first...].contains { !own.contains($0) && !Database.isStoreInternalObject($0) }
    }

    /// Whether triggers of the program write the full-text table.
    private func isWrittenByProgram(_ db: Database) throws -> Bool {
        let own = Set(Self.triggerNames(of: index.name))
        let name = index.name.lowercasedASCII
        return try contentTriggers(db).contains { trigger in
            !own.contains(trigger.name)
                && SQLToken.tokens(of: trigger.sql).contains { $0.name?.lowercasedASCII == name }
        }
    }

    /// The synchronized full-text tables of the main database, by their names, with whether their content is there.
    static func synchronized(_ db: Database) throws -> [String: Bool] {
        let sql = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND \("name".sqlBegins(with: prefix))"
        let noted = try Set(String.fetchAll(db.statement(forFetching: sql)))
        if noted.isEmpty { return [:] }
        let contents = try FullTextIndex.all(db).compactMap { index -> (String, Bool)? in
            guard case .table(let content) = index.content, noted.contains(prefix + index.name) else { return nil }
            return (index.name, try db.tableExists(content))
        }
        return Dictionary(contents) { first, _ in first }
    }

    /// The synchronized full-text tables of a connection whose triggers do not fit their content: its keys have changed, the
    /// triggers are gone with a former table of its name, or a trigger of the program fires before them.
    static func misfits(_ db: Database) throws -> [DisplacedRows] {
        try ["main", "temp"].flatMap { schema in
            let isNote = "name".sqlBegins(with: prefix)
            let sql = "SELECT name FROM \(schema).sqlite_schema WHERE type = 'table' AND \(isNote)"
            let names = try String.fetchAll(db.statement(forFetching: sql))
            if names.isEmpty { return [DisplacedRows]() }
            let indexes = try FullTextIndex.all(in: schema, db)
            return try names.compactMap { name in
                guard let index = indexes.first(where: { prefix + $0.name == name }) else { return nil }
                return try misfit(index, isTemporary: schema == "temp", db)
            }
        }
    }

    /// The full-text tables of the main database whose triggers are those of a version that did not follow `REPLACE`,
    /// unchanged: they have no notes.
    static func outdated(_ db: Database) throws -> [DisplacedRows] {
        let isOwn = "name".sqlBegins(with: "__")
        let names = try String.fetchAll(
            db.statement(forFetching: "SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND \(isOwn)"))
        if !names.contains(where: { $0.hasSuffix("_ai") || $0.hasSuffix("_au") }) { return [] }
        let existing = try Set(
            String.fetchAll(db, sql: "SELECT sql FROM main.sqlite_schema WHERE type = 'trigger' AND sql IS NOT NULL"))
        return try FullTextIndex.all(db).compactMap { index in
            guard try !db.tableExists(prefix + index.name, in: "main"),
                let rows = try rows(of: index, isTemporary: false, db), try rows.isFollowing(db)
            else { return nil }
            return rows.formerTriggers.allSatisfy { existing.contains($0.definition) } ? rows : nil
        }
    }

    /// The triggers that earlier versions made, and GRDB makes.
    private var formerTriggers: [Trigger] {
        if index.module == .fts5 {
            let insert = "INSERT INTO \(fullText)(\(names)) VALUES (\(values(of: "new")))"
            let delete = "INSERT INTO \(fullText)(\(fullText), \(names)) VALUES('delete', \(values(of: "old")))"
            return [
                trigger("ai", "AFTER INSERT", [insert]), trigger("ad", "AFTER DELETE", [delete]),
                trigger("au", "AFTER UPDATE", [delete, insert]),
            ]
        }
        let delete = "DELETE FROM \(fullText) WHERE docid=\(id(of: "old"))"
        let insert = "INSERT INTO \(fullText)(\(names)) VALUES(\(values(of: "new")))"
        return [
            trigger("bu", "BEFORE UPDATE", [delete]), trigger("bd", "BEFORE DELETE", [delete]),
            trigger("au", "AFTER UPDATE", [insert]), trigger("ai", "AFTER INSERT", [insert]),
        ]
    }

    private static func misfit(_ index: FullTextIndex, isTemporary: Bool, _ db: Database) throws -> DisplacedRows? {
        guard let rows = try rows(of: index, isTemporary: isTemporary, db) else { return nil }
        if try rows.isComplete(db) { return try rows.firesLate(db) ? rows : nil }
        return try !rows.isFollowing(db) && rows.isWrittenByProgram(db) ? nil : rows
    }

    /// Nil for a full-text table without a table of the program, or whose columns cannot be told.
    private static func rows(of index: FullTextIndex, isTemporary: Bool, _ db: Database) throws -> DisplacedRows? {
        let schema = isTemporary ? "temp" : "main"
        guard case .table(let content) = index.content, try db.tableExists(content),
            let rowID = try db.rowIDName(of: content)
        else { return nil }
        // The column of the language is hidden, and added by the definition.
        // SQLite cannot name them without the tokenizer, which this program may lack: it leaves the triggers as they are.
        guard let columns = try? db.columns(in: index.name, in: schema).map(\.name) else { return nil }
        let known = try Set(db.columns(in: content).map(\.name.lowercasedASCII))
        guard columns.allSatisfy({ known.contains($0.lowercasedASCII) }) else { return nil }
        return DisplacedRows(index, rowID: rowID, columns: columns, isTemporary: isTemporary)
    }
}
