/// What the layer of changeset sync keeps for a connection: among others, temporary triggers of its own on tables of the
/// program. They name the columns of the tables, so they stand in the way of a change of these.
package protocol SyncStorage: AnyObject {
    /// How the names of the triggers begin; nil where there are none, and while they must stay.
    var removableTriggers: String? { get }
    /// Called where the triggers were dropped.
    func didRemoveTriggers()
    /// Called before a statement alters a table.
    ///
    /// - Parameter name: The table, in lower case.
    func willAlterTable(_ name: String, dropsColumn: Bool, _ db: Database) throws
}

extension Database {
    /// How often the connection may have made a `REPLACE` fire no delete triggers.
    package var recursiveTriggersEnds: Int { hooks.recursiveTriggersEnds }

    /// Drops the triggers of the layer of changeset sync, where a statement does not compile because of them: another
    /// connection has dropped or renamed a column that they name. They are made again when they are needed.
    ///
    /// SQLite also compiles statements again in the middle of a step, inside of a bracketed call. So what runs here is no
    /// access of its own.
    /// - Parameter code: What compiling has returned.
    /// - Returns: Whether the statement is to be compiled again.
    func removeMisfitTriggers(after code: ResultCode) -> Bool {
        guard code == .SQLITE_ERROR, let storage = syncStorage, let prefix = storage.removableTriggers,
            handle.lastMessage.hasPrefix("no such column")
        else { return false }
        let names = unbracketed("SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB '\(prefix)*'")
        for name in names { _ = unbracketed("DROP TRIGGER temp.\(name.quotedDatabaseIdentifier)") }
        schemaCache.clear()
        storage.didRemoveTriggers()
        return !names.isEmpty
    }

    /// Runs a statement, and returns the first column of its rows.
    private func unbracketed(_ sql: String) -> [String] {
        hooks.isCompiling = true
        let (code, compiled, _) = handle.prepare(sql, persistent: false)
        hooks.isCompiling = false
        guard code == .SQLITE_OK, let compiled else { return [] }
        let statement = StatementHandle(compiled)
        defer { statement.finalize() }
        var values: [String] = []
        while statement.step() == ResultCode.SQLITE_ROW.rawValue {
            if let value = statement.stringOrNil(at: 0) { values.append(value) }
        }
        return values
    }
}

extension Statement {
    /// Takes the first step. Where the schema has changed, SQLite compiles the statement again.
    @inline(__always)
    func firstStep() -> CInt {
        let code = handle.step()
        return code == ResultCode.SQLITE_ERROR.rawValue ? stepAgain(code) : code
    }

    /// Takes the first step once more, where it has failed because of triggers that do not fit.
    ///
    /// - Returns: The code of the last step.
    @usableFromInline
    func stepAgain(_ code: CInt) -> CInt {
        guard database.removeMisfitTriggers(after: ResultCode(rawValue: code)) else { return code }
        _ = handle.reset()
        return handle.step()
    }
}
