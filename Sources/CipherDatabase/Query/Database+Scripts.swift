// Running a text of several statements one after the other, with their rows.
extension Database {
    /// Compiles the statements of a text one after the other and passes each to `body` before the next is compiled: it
    /// may depend on the one before it.
    ///
    /// - Throws: ``DatabaseError``, or the error of `body`, which ends the run; statements before have run.
    package func forEachStatement(in sql: String, _ body: (Statement) throws -> Void) throws {
        requireAccess()
        try sql.withCString { start in
            var text = start
            while text.pointee != 0 {
                try keying.willCompile(String(cString: text), on: self)
                let (code, compiled, tail) = prepare(text, persistent: false)
                guard code == .SQLITE_OK else { throw error(code, sql: String(cString: text).trimmingSQL()) }
                if let compiled { try body(Statement(database: self, sqliteStatement: compiled)) }
                // Blanks and comments compile to nothing, and may be all that is left.
                guard let tail, tail > text else { return }
                text = tail
            }
        }
    }
}
