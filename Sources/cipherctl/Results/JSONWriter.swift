import CipherStore

/// Rows as an array of objects, one row on a line.
///
/// A column name that comes twice gets `:1`, `:2` and so on behind it, as SQLite itself does where names must differ.
struct JSONWriter: ResultWriter {
    private var names: [String] = []
    private var isFirst = true

    mutating func begin(_ columns: [String], to output: Output) throws {
        names = Self.distinct(columns)
        try output.write("[")
    }

    mutating func add(_ row: [DatabaseValue], to output: Output) throws {
        let members = zip(names, row).map { JSON.Member(name: $0, value: $1.json) }
        try output.write((isFirst ? "\n" : ",\n") + JSON.object(members).text)
        isFirst = false
    }

    mutating func end(to output: Output) throws { try output.line(isFirst ? "]" : "\n]") }

    static func distinct(_ columns: [String]) -> [String] {
        var taken = Set<String>()
        return columns.map { column in
            var name = column
            var number = 0
            while !taken.insert(name).inserted {
                number += 1
                name = "\(column):\(number)"
            }
            return name
        }
    }
}
