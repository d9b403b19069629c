import CipherStore

// The lines that the compiler refuses, and those that it takes: `.ci/refused` holds each line that ends with "refused" against its
// errors. A Bool as a condition would be the same for every row.

struct Player: TableRecord {
    enum Columns {
        static let a = Column("a")
        static let b = Column("b")
    }
}

struct Team: TableRecord {
    enum Columns: String, ColumnExpression { case a, b }
}

let flag = [true].contains(true)

func conditions(_ db: Database) throws {
    _ = Player.filter { $0.a == $0.b }
    _ = Player.filter { _ in true }
    _ = Player.filter { flag && $0.a == $0.b }
    _ = Player.filter { $0.a == 1 && true == flag }
    _ = Player.filter { true == flag && $0.a == 1 }
    _ = Team.filter { $0.a == $0.b || flag }
    _ = Player.filter { _ in flag.databaseValue }
    _ = Player.filter { _ in flag }  // refused
    _ = Player.filter { _ in !flag }  // refused
    _ = Player.filter { _ in flag && true == flag }  // refused
    _ = Player.filter { _ in 2 > 1 }  // refused
    _ = Player.filter { flag ? $0.a == $0.b : true }  // refused
    _ = Player.filter { $0.a == $0.b ? true : flag }  // refused
    _ = Player.filter(flag)  // refused
    _ = Player.filter(flag && true == flag)  // refused
    _ = Team.filter { _ in flag }  // refused
    _ = Player.all().filter { _ in flag }  // refused
    _ = Table<Player>("player").filter { _ in flag }  // refused
    _ = Player.all().having { _ in flag }  // refused
    _ = Player.all().having(flag)  // refused
    _ = Player.all().filterWhenConnected { _ in flag }  // refused
    try db.create(table: "player") { table in
        table.check(Column("a") == Column("b"))
        table.check(flag)  // refused
        table.column("a").check { _ in flag }  // refused
    }
}
