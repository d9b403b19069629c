/// A row of a tracked table before and after a transaction of the program, found by its exact key.
struct ProgramChange: Sendable {
    /// The table, as the program calls it.
    let table: String
    /// All columns but generated ones; nil if there was no such row.
    let old: [CellValue]?
    let new: [CellValue]?

    init(table: String, old: [CellValue]?, new: [CellValue]?) {
        (self.table, self.old, self.new) = (table, old, new)
    }
}
