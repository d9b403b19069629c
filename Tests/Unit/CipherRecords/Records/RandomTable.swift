import CipherDatabase
import Foundation

/// Numbers that follow from a seed alone.
struct Dice: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    mutating func roll(_ count: Int) -> Int { Int.random(in: 0..<count, using: &self) }
    mutating func pick<T>(_ items: [T]) -> T { items[roll(items.count)] }
    /// True once in so many times.
    mutating func once(in count: Int) -> Bool { roll(count) == 0 }
}

/// A table of a random schema, with random rows.
struct RandomTable {
    enum Kind: String, CaseIterable {
        case integer, real, text, blob
    }

    struct TableColumn {
        let name: String
        let kind: Kind
    }

    let name: String
    /// The first one has a number for each row that no other has.
    let columns: [TableColumn]
    /// Whether the number is the whole primary key.
    let isKeyed: Bool
    let rows: [[DatabaseValue]]
    private let definition: String

    /// Names that SQL text without quotes would not survive.
    private static let names = [
        "order", "select", "group", "index", "a b", "we\"ird", "\"", "it's", "semi;colon", "täble", "日本", "[x]", "`y`",
        "1st", "percent%", "Values", "null", "--", "?", ":name", "a.b", "from", "limit", "plain",
    ]

    init(_ dice: inout Dice, avoiding taken: Set<String>) {
        name = Self.names.filter { !taken.contains($0) }.randomElement(using: &dice) ?? "plain"
        let names = Self.names.shuffled(using: &dice).prefix(3 + dice.roll(4))
        columns = names.enumerated().map { index, name in
            TableColumn(name: name, kind: index == 0 ? .integer : dice.pick(Kind.allCases))
        }
        var items = columns.map { "\($0.name.quotedDatabaseIdentifier) \($0.kind.rawValue.uppercased())" }
        let (mark, second) = (columns[0].name.quotedDatabaseIdentifier, columns[1].name.quotedDatabaseIdentifier)
        let style = dice.roll(5)
        var suffix = ""
        switch style {
        case 0: items[0] += " PRIMARY KEY"
        case 1: items[0] += " NOT NULL UNIQUE"
        case 2:
            items[0] += " NOT NULL"
            items.append("PRIMARY KEY (\(mark))")
            suffix = " WITHOUT ROWID"
        case 3: items.append("PRIMARY KEY (\(mark), \(second))")
        default: break
        }
        isKeyed = style == 0 || style == 2
        definition = "CREATE TABLE \(name.quotedDatabaseIdentifier) (\(items.joined(separator: ", ")))\(suffix)"
        let kinds = columns.map(\.kind)
        rows = (0..<dice.roll(40)).map { index in
            [(index * 3 - 20).databaseValue] + kinds.dropFirst().map { Self.stored($0, &dice) }
        }
    }

    func create(_ db: Database) throws {
        try db.execute(sql: definition)
        let marks = databaseQuestionMarks(count: columns.count)
        let insert = "INSERT INTO \(name.quotedDatabaseIdentifier) VALUES (\(marks))"
        for row in rows { try db.execute(sql: insert, arguments: StatementArguments(row)) }
    }

    // MARK: Values

    /// A value of a column; every fourth one is NULL.
    static func stored(_ kind: Kind, _ dice: inout Dice) -> DatabaseValue {
        dice.once(in: 4) ? .null : value(kind, &dice)
    }

    static func value(_ kind: Kind, _ dice: inout Dice) -> DatabaseValue {
        switch kind {
        case .integer: return (dice.roll(21) - 10).databaseValue
        case .real:
            // The last ones are among those that SQLite's JSON does not read exactly.
            return dice.pick([0.1, -0.1, 0.5, 2.25, 1e-30, -1e30, 1 / 3, 2.459373598181539, 7.55244328117857])
                .databaseValue
        case .text:
            return dice.pick([
                "", "a", "A", "b", "Ab", "aB%", "_", "it's", "\"q\"", "ä", "Ä", "日", "\\", "a\u{1}b", "🙂",
            ])
            .databaseValue
        case .blob: return dice.pick([Data(), Data([0]), Data([0, 1]), Data([255]), Data("a".utf8)]).databaseValue
        }
    }

    /// The order of two values of one kind; nil where one is NULL.
    static func compare(_ left: DatabaseValue, _ right: DatabaseValue) -> Int? {
        switch (left.storage, right.storage) {
        case (.null, _), (_, .null): nil
        case (.int64(let left), .int64(let right)): left < right ? -1 : left == right ? 0 : 1
        case (.double(let left), .double(let right)): left < right ? -1 : left == right ? 0 : 1
        case (.string(let left), .string(let right)): order(Array(left.utf8), Array(right.utf8))
        case (.blob(let left), .blob(let right)): order(Array(left), Array(right))
        default: preconditionFailure("values of two kinds are never compared")
        }
    }

    private static func order(_ left: [UInt8], _ right: [UInt8]) -> Int {
        left.lexicographicallyPrecedes(right) ? -1 : left == right ? 0 : 1
    }
}
