import CipherDatabase

@testable import CipherRecords

// One table, and each type that may name its columns.

struct Item: TableRecord {
    enum Columns {
        static let a = Column("a")
        static let b = Column("b")
        static let c = Column("c")
    }
}

struct JSONItem: TableRecord {
    static let databaseTableName = "item"
    enum Columns {
        static let a = JSONColumn("a")
        static let b = JSONColumn("b")
        static let c = JSONColumn("c")
    }
}

struct EnumItem: TableRecord {
    static let databaseTableName = "item"
    enum Columns: String, ColumnExpression { case a, b, c }
}

struct KeyItem: TableRecord {
    static let databaseTableName = "item"
    enum CodingKeys: String, CodingKey, ColumnExpression { case a, b, c }
    typealias Columns = CodingKeys
}

struct PlainItem: TableRecord {
    static let databaseTableName = "item"
    enum Columns: ColumnExpression, CodingKey, Comparable {
        case a, b, c

        var name: String { stringValue }
    }
}

struct HashItem: TableRecord {
    static let databaseTableName = "item"
    struct Columns: ColumnExpression, Hashable {
        let name: String
        static let a = Columns(name: "a")
        static let b = Columns(name: "b")
        static let c = Columns(name: "c")
    }
}

struct ExpressionItem: TableRecord {
    static let databaseTableName = "item"
    enum Columns {
        static let a = Column("a").sqlExpression
        static let b = Column("b").sqlExpression
        static let c = Column("c").sqlExpression
    }
}
