/// The names by which SQL reaches the rowid of a table. A column with one of these names hides the rowid.
///
/// - SeeAlso: <https://www.sqlite.org/lang_createtable.html#rowid>
package enum RowIDName {
    package static let all = ["rowid", "_rowid_", "oid"]

    /// The names that no column hides.
    ///
    /// - Parameter columns: The names of all columns of the table.
    package static func visible(beside columns: some Sequence<String>) -> [String] {
        let hidden = Set(columns.map(\.lowercasedASCII))
        return all.filter { !hidden.contains($0) }
    }
}

extension Database {
    /// The name by which SQL finds the rows of a table by their rowid: that of the `INTEGER PRIMARY KEY`, if there is one.
    ///
    /// - Returns: Nil for a table without rowid, and for one whose columns hide all of its names.
    package func rowIDName(of table: String) throws -> String? {
        let key = try primaryKey(table)
        return key.rowIDColumn ?? key.rowIDName
    }
}
