import CipherDatabase
import CipherRecords
import Testing

@Suite("Random requests find the rows that plain Swift finds")
struct RandomRequestTests {
    /// Rows of small numbers, some of them NULL.
    private struct Point: Codable, Hashable, PersistableRecord, FetchableRecord {
        var id: Int
        var a: Int?
        var b: Int?
        var c: String?
    }

    /// A condition or number that SQL and Swift both compute. NULL is nil; true and false are 1 and 0.
    private struct Formula {
        let sql: SQLExpression
        let value: (Point) -> Int?
    }

    /// Numbers that follow from a seed alone.
    private struct Dice: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
            return mixed ^ (mixed >> 31)
        }
        mutating func roll(_ count: Int) -> Int { Int.random(in: 0..<count, using: &self) }
    }

    @Test("by filters of columns, numbers, operators and lists", arguments: 1...60)
    func filters(seed: UInt64) throws {
        var dice = Dice(state: seed)
        let points = (1...40).map { id in
            Point(
                id: id, a: dice.roll(4) == 0 ? nil : dice.roll(7) - 3,
                b: dice.roll(4) == 0 ? nil : dice.roll(7) - 3,
                c: dice.roll(3) == 0 ? nil : ["x", "y", "xy", "%"][dice.roll(4)])
        }
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: "CREATE TABLE point (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c TEXT)")
            for point in points { try point.insert(db) }
            for _ in 0..<25 {
                let formula = condition(&dice, depth: 4)
                let expected = points.filter { formula.value($0).map { $0 != 0 } ?? false }
                let request = Point.filter(formula.sql).order(Column("id"))
                try #expect(request.fetchAll(db) == expected, "seed \(seed)")
                try #expect(request.fetchCount(db) == expected.count, "seed \(seed)")
                let (limit, offset) = (dice.roll(5) + 1, dice.roll(5))
                let page = Array(expected.dropFirst(offset).prefix(limit))
                try #expect(request.limit(limit, offset: offset).fetchAll(db) == page, "seed \(seed)")
                try #expect(
                    Point.filter(request.select(Column("id")).contains(Column("id"))).fetchCount(db)
                        == expected.count,
                    "seed \(seed)")
            }
        }
    }

    // MARK: Formulas

    private func condition(_ dice: inout Dice, depth: Int) -> Formula {
        if depth == 0 || dice.roll(4) == 0 { return comparison(&dice, depth: depth) }
        let (left, right) = (condition(&dice, depth: depth - 1), condition(&dice, depth: depth - 1))
        switch dice.roll(4) {
        case 0:
            return Formula(sql: left.sql && right.sql) { point in
                let (left, right) = (left.value(point), right.value(point))
                if left == 0 || right == 0 { return 0 }
                return left == nil || right == nil ? nil : 1
            }
        case 1:
            return Formula(sql: left.sql || right.sql) { point in
                let (left, right) = (left.value(point), right.value(point))
                if left ?? 0 != 0 || right ?? 0 != 0 { return 1 }
                return left == nil || right == nil ? nil : 0
            }
        case 2: return Formula(sql: !left.sql) { left.value($0).map { $0 == 0 ? 1 : 0 } }
        default:
            return Formula(sql: [left.sql, right.sql].joined(operator: .and)) { point in
                let (left, right) = (left.value(point), right.value(point))
                if left == 0 || right == 0 { return 0 }
                return left == nil || right == nil ? nil : 1
            }
        }
    }

    private func comparison(_ dice: inout Dice, depth: Int) -> Formula {
        let (left, right) = (number(&dice, depth: depth), number(&dice, depth: depth))
        func compare(_ sql: SQLExpression, _ holds: @escaping (Int, Int) -> Bool) -> Formula {
            Formula(sql: sql) { point in
                guard let left = left.value(point), let right = right.value(point) else { return nil }
                return holds(left, right) ? 1 : 0
            }
        }
        switch dice.roll(10) {
        case 0: return compare(left.sql == right.sql, ==)
        case 1: return compare(left.sql != right.sql, !=)
        case 2: return compare(left.sql < right.sql, <)
        case 3: return compare(left.sql >= right.sql, >=)
        case 4:
            return Formula(sql: left.sql === right.sql) { left.value($0) == right.value($0) ? 1 : 0 }
        case 5: return Formula(sql: left.sql == nil) { left.value($0) == nil ? 1 : 0 }
        case 6:
            let numbers = (0..<dice.roll(4)).map { _ in dice.roll(7) - 3 }
            return Formula(sql: numbers.contains(left.sql)) { point in
                numbers.isEmpty ? 0 : left.value(point).map { numbers.contains($0) ? 1 : 0 }
            }
        case 7:
            let low = dice.roll(5) - 3
            return Formula(sql: (low...(low + 2)).contains(left.sql)) { point in
                left.value(point).map { (low...(low + 2)).contains($0) ? 1 : 0 }
            }
        case 8:
            let text = ["x", "y", nil][dice.roll(3)]
            return Formula(sql: Column("c") == text) { point in
                guard let text else { return point.c == nil ? 1 : 0 }
                return point.c.map { $0 == text ? 1 : 0 }
            }
        default: return Formula(sql: Column("c").like("x%")) { $0.c.map { $0.hasPrefix("x") ? 1 : 0 } }
        }
    }

    private func number(_ dice: inout Dice, depth: Int) -> Formula {
        if depth > 0, dice.roll(3) == 0 {
            let (left, right) = (number(&dice, depth: depth - 1), number(&dice, depth: depth - 1))
            func combine(_ sql: SQLExpression, _ combined: @escaping (Int, Int) -> Int) -> Formula {
                Formula(sql: sql) { point in
                    guard let left = left.value(point), let right = right.value(point) else { return nil }
                    return combined(left, right)
                }
            }
            switch dice.roll(5) {
            case 0: return combine(left.sql + right.sql, +)
            case 1: return combine(left.sql - right.sql, -)
            case 2: return combine(left.sql * right.sql, *)
            case 3: return Formula(sql: -left.sql) { left.value($0).map { -$0 } }
            default: return Formula(sql: left.sql ?? right.sql) { left.value($0) ?? right.value($0) }
            }
        }
        switch dice.roll(4) {
        case 0: return Formula(sql: Column("a").sqlExpression, value: \.a)
        case 1: return Formula(sql: Column("b").sqlExpression, value: \.b)
        case 2: return Formula(sql: Column("id").sqlExpression, value: \.id)
        default:
            let number = dice.roll(7) - 3
            return Formula(sql: number.databaseValue.sqlExpression) { _ in number }
        }
    }
}
