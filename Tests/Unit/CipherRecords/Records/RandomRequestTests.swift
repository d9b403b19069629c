import CipherDatabase
import CipherRecords
import Foundation
import Testing

@Suite("Random requests over a random schema find the rows that plain Swift finds")
struct RandomRequestTests {
    typealias Kind = RandomTable.Kind
    typealias Values = [DatabaseValue]

    /// A value that SQL and Swift both compute of a row.
    struct Operand {
        let kind: Kind
        let sql: SQLExpression
        let value: (Values) -> DatabaseValue
    }

    /// A condition on a row; nil where it is NULL.
    struct Condition {
        let sql: SQLExpression
        let holds: (Values) -> Bool?
    }

    /// The seed of `CIPHERSTORE_SEED`, or known ones and a new one.
    static let seeds: [UInt64] = {
        if let given = ProcessInfo.processInfo.environment["CIPHERSTORE_SEED"].flatMap({ UInt64($0) }) {
            return [given]
        }
        let fresh = UInt64.random(in: .min ... .max)
        print("random requests: CIPHERSTORE_SEED=\(fresh), and 1 to 12")
        return Array(1...12) + [fresh]
    }()

    @Test("filters, orders, limits, distinct rows, groups, aggregates, changes", arguments: seeds)
    func requests(seed: UInt64) throws {
        var dice = Dice(state: seed)
        let first = RandomTable(&dice, avoiding: [])
        let tables = [first, RandomTable(&dice, avoiding: [first.name])]
        let queue = DatabaseQueue()
        try queue.write { db in
            for table in tables { try table.create(db) }
            for round in 0..<20 {
                let comment = "CIPHERSTORE_SEED=\(seed), round \(round)"
                let table = dice.pick(tables)
                let others = tables.filter { $0.name != table.name }
                let condition = Self.condition(&dice, table, others, depth: 3)
                let rows = table.rows.filter { condition.holds($0) == true }
                var request = Table(table.name).filter(condition.sql)
                if dice.once(in: 3) {
                    request = request.aliased(TableAlias(name: dice.pick(["t", "group", "\"", "x y"])))
                }
                try Self.checkRows(&dice, request, rows, table, db, comment)
                try Self.checkAggregates(&dice, request, rows, table, db, comment)
                try Self.checkChanges(&dice, request, rows, table, db, comment)
            }
        }
    }

    @Test("a condition that Swift computes otherwise is found")
    func difference() throws {
        var dice = Dice(state: 3)
        let table = RandomTable(&dice, avoiding: [])
        let queue = DatabaseQueue()
        try queue.write { db in
            try table.create(db)
            // The first rows have -20 and -17.
            let request = Table(table.name).filter(Column(table.columns[0].name) < -15)
            #expect(try request.fetchCount(db) == 2)
            withKnownIssue {
                try Self.checkRows(&dice, request, [table.rows[0]], table, db, "a known difference")
            }
        }
    }

    // MARK: Checks

    private static func checkRows(
        _ dice: inout Dice, _ request: QueryInterfaceRequest<Row>, _ rows: [Values], _ table: RandomTable,
        _ db: Database,
        _ comment: String
    ) throws {
        let comment = Comment(rawValue: comment)
        // The last column of the order tells all rows apart.
        let positions = Array(table.columns.indices.shuffled(using: &dice).prefix(dice.roll(3))) + [0]
        let directions = positions.map { _ in dice.roll(5) }
        let isReversed = dice.once(in: 3)
        var ordered = request.order(
            zip(positions, directions).map { position, direction in
                ordering(Column(table.columns[position].name), direction)
            })
        if isReversed { ordered = ordered.reversed() }
        let sorted = rows.sorted { left, right in
            for (position, direction) in zip(positions, directions) {
                let order = Self.order(left[position], right[position], isReversed ? reversed(direction) : direction)
                if order != 0 { return order < 0 }
            }
            return false
        }
        let found = try ordered.fetchAll(db).map { Array($0.databaseValues) }
        #expect(found == sorted, comment)
        let (limit, offset) = (dice.roll(6), dice.once(in: 2) ? dice.roll(6) : nil)
        let page = Array(sorted.dropFirst(offset ?? 0).prefix(limit))
        let limited = ordered.limit(limit, offset: offset)
        #expect(try limited.fetchAll(db).map { Array($0.databaseValues) } == page, comment)
        #expect(try limited.fetchCount(db) == page.count, comment)
        #expect(try ordered.fetchOne(db).map { Array($0.databaseValues) } == sorted.first, comment)
        #expect(try ordered.isEmpty(db) == sorted.isEmpty, comment)
        if table.isKeyed {
            // Of more keys than fit into a list of parameters as well.
            let keys = (0..<dice.pick([0, 1, 5, 200])).map { $0 - 25 }
            let marked = try request.filter(keys: keys).fetchAll(db).map { $0.databaseValues.first }
            #expect(Set(marked) == Set(rows.map { $0[0] }).intersection(keys.map(\.databaseValue)), comment)
        }
    }

    private static func checkAggregates(
        _ dice: inout Dice, _ request: QueryInterfaceRequest<Row>, _ rows: [Values], _ table: RandomTable,
        _ db: Database,
        _ comment: String
    ) throws {
        let comment = Comment(rawValue: comment)
        let position = dice.roll(table.columns.count)
        let column = Column(table.columns[position].name)
        let present = rows.map { $0[position] }.filter { !$0.isNull }
        #expect(try request.fetchCount(db) == rows.count, comment)
        let counts = try request.select(count(column), count(distinct: column), count(.allColumns)).fetchOne(db)
        let expected = [present.count, Set(present).count, rows.count].map(\.databaseValue)
        #expect(counts.map { Array($0.databaseValues) } == expected, comment)
        let least = present.min { (RandomTable.compare($0, $1) ?? 0) < 0 } ?? .null
        let greatest = present.max { (RandomTable.compare($0, $1) ?? 0) < 0 } ?? .null
        let bounds = try request.select(min(column), max(column)).fetchOne(db)
        #expect(bounds.map { Array($0.databaseValues) } == [least, greatest], comment)
        let marks = rows.compactMap { Int.fromDatabaseValue($0[0]) }
        let sums = try request.select(sum(Column(table.columns[0].name)), as: Int.self).fetchOne(db)
        #expect(sums == (marks.isEmpty ? nil : marks.reduce(0, +)), comment)
        let filtered = try request.select(sum(Column(table.columns[0].name), filter: column != nil)).fetchOne(db)
        let kept = rows.filter { !$0[position].isNull }.compactMap { Int.fromDatabaseValue($0[0]) }
        #expect(filtered?[0] as Int? == (kept.isEmpty ? nil : kept.reduce(0, +)), comment)
        let different = request.select(column).distinct()
        #expect(try Set(DatabaseValue.fetchAll(db, different)) == Set(rows.map { $0[position] }), comment)
        #expect(try different.fetchCount(db) == Set(rows.map { $0[position] }).count, comment)
        let most = dice.roll(3)
        let groups = try request.select(column, count(.allColumns)).group(column).having(count(.allColumns) > most)
            .fetchAll(db)
        let sizes = Dictionary(grouping: rows) { $0[position] }.mapValues(\.count).filter { $0.value > most }
        #expect(
            Dictionary(groups.map { ($0[0] as DatabaseValue, $0[1] as Int) }, uniquingKeysWith: { $0 + $1 }) == sizes,
            comment)
    }

    private static func checkChanges(
        _ dice: inout Dice, _ request: QueryInterfaceRequest<Row>, _ rows: [Values], _ table: RandomTable,
        _ db: Database,
        _ comment: String
    ) throws {
        let comment = Comment(rawValue: comment)
        let position = 1 + dice.roll(table.columns.count - 1)
        let column = Column(table.columns[position].name)
        let new = RandomTable.stored(table.columns[position].kind, &dice)
        let marks = Set(rows.map { $0[0] })
        try db.inSavepoint {
            #expect(try request.updateAll(db, column.set(to: new)) == rows.count, comment)
            let changed = table.rows.map { row in
                var row = row
                if marks.contains(row[0]) { row[position] = new }
                return row
            }
            let stored = try Table(table.name).order(Column(table.columns[0].name)).fetchAll(db)
            #expect(stored.map { Array($0.databaseValues) } == changed, comment)
            return .rollback
        }
        let limit = dice.once(in: 2) ? dice.roll(4) : nil
        let ordered = request.order(Column(table.columns[0].name))
        try db.inSavepoint {
            let deleted = limit.map { ordered.limit($0) } ?? ordered
            let gone = limit.map { rows.prefix($0) } ?? rows[...]
            #expect(try deleted.deleteAll(db) == gone.count, comment)
            let left = try Table(table.name).order(Column(table.columns[0].name)).fetchAll(db).map {
                $0.databaseValues.first
            }
            let goneMarks = Set(gone.map { $0[0] })
            #expect(left == table.rows.map { $0[0] }.filter { !goneMarks.contains($0) }, comment)
            return .rollback
        }
    }

    // MARK: Orders

    private static func ordering(_ column: Column, _ direction: Int) -> any SQLOrderingTerm {
        switch direction {
        case 0: column
        case 1: column.asc
        case 2: column.desc
        case 3: column.ascNullsLast
        default: column.descNullsFirst
        }
    }

    private static func reversed(_ direction: Int) -> Int { [2, 2, 1, 4, 3][direction] }

    private static func order(_ left: DatabaseValue, _ right: DatabaseValue, _ direction: Int) -> Int {
        let isDescending = direction == 2 || direction == 4
        if let order = RandomTable.compare(left, right) { return isDescending ? -order : order }
        if left.isNull && right.isNull { return 0 }
        let isNullFirst = direction == 0 || direction == 1 || direction == 4
        return left.isNull == isNullFirst ? -1 : 1
    }

    // MARK: Conditions

    private static func condition(
        _ dice: inout Dice, _ table: RandomTable, _ others: [RandomTable], depth: Int
    ) -> Condition {
        if depth == 0 || dice.once(in: 3) { return predicate(&dice, table, others, depth: depth) }
        let left = condition(&dice, table, others, depth: depth - 1)
        let right = condition(&dice, table, others, depth: depth - 1)
        switch dice.roll(5) {
        case 0: return Condition(sql: left.sql && right.sql) { both(left.holds($0), right.holds($0)) }
        case 1: return Condition(sql: left.sql || right.sql) { either(left.holds($0), right.holds($0)) }
        case 2: return Condition(sql: !left.sql) { left.holds($0).map { !$0 } }
        case 3:
            return Condition(sql: [left.sql, right.sql].joined(operator: .and)) {
                both(left.holds($0), right.holds($0))
            }
        default:
            return Condition(sql: Case().when(left.sql, then: right.sql).otherwise(!right.sql).sqlExpression) { row in
                left.holds(row) == true ? right.holds(row) : right.holds(row).map { !$0 }
            }
        }
    }

    private static func both(_ left: Bool?, _ right: Bool?) -> Bool? {
        left == false || right == false ? false : left == nil || right == nil ? nil : true
    }

    private static func either(_ left: Bool?, _ right: Bool?) -> Bool? {
        left == true || right == true ? true : left == nil || right == nil ? nil : false
    }

    private static func predicate(
        _ dice: inout Dice, _ table: RandomTable, _ others: [RandomTable], depth: Int
    ) -> Condition {
        let left = operand(&dice, table, of: dice.pick(table.columns).kind, depth: 2)
        switch dice.roll(9) {
        case 0: return Condition(sql: left.sql == nil as Int?) { left.value($0).isNull }
        case 1: return Condition(sql: left.sql != nil as Int?) { !left.value($0).isNull }
        case 2, 3: return comparison(&dice, left, operand(&dice, table, of: left.kind, depth: 2))
        case 4: return membership(&dice, left)
        case 5:
            let bounds = [RandomTable.value(left.kind, &dice), RandomTable.value(left.kind, &dice)]
            let sql = bounds[0].sqlExpression
            return Condition(sql: left.sql >= sql && left.sql < bounds[1]) { row in
                let value = left.value(row)
                return both(
                    RandomTable.compare(value, bounds[0]).map { $0 >= 0 },
                    RandomTable.compare(value, bounds[1]).map { $0 < 0 })
            }
        case 6: return likeness(&dice, operand(&dice, table, of: .text, depth: 1))
        case 7: return range(&dice, operand(&dice, table, of: .integer, depth: 2))
        default: return inRows(&dice, left, others, depth: depth)
        }
    }

    private static func comparison(_ dice: inout Dice, _ left: Operand, _ right: Operand) -> Condition {
        func compare(_ sql: SQLExpression, _ holds: @escaping (Int) -> Bool) -> Condition {
            Condition(sql: sql) { RandomTable.compare(left.value($0), right.value($0)).map(holds) }
        }
        if left.kind == .text && dice.once(in: 4) {
            // SQLite folds the letters of ASCII alone.
            func folded(_ value: DatabaseValue) -> String? {
                String.fromDatabaseValue(value).map { String($0.unicodeScalars.map { Character($0.asciiFolded) }) }
            }
            return Condition(sql: left.sql.collating(.nocase) == right.sql) { row in
                guard let left = folded(left.value(row)), let right = folded(right.value(row)) else { return nil }
                return left.utf8.elementsEqual(right.utf8)
            }
        }
        switch dice.roll(8) {
        case 0: return compare(left.sql == right.sql) { $0 == 0 }
        case 1: return compare(left.sql != right.sql) { $0 != 0 }
        case 2: return compare(left.sql < right.sql) { $0 < 0 }
        case 3: return compare(left.sql <= right.sql) { $0 <= 0 }
        case 4: return compare(left.sql > right.sql) { $0 > 0 }
        case 5: return compare(left.sql >= right.sql) { $0 >= 0 }
        case 6: return Condition(sql: left.sql === right.sql) { left.value($0) == right.value($0) }
        default: return Condition(sql: left.sql !== right.sql) { left.value($0) != right.value($0) }
        }
    }

    /// The value of `IN`: NULL if a NULL might have been equal.
    private static func isAmong(_ value: DatabaseValue, _ values: [DatabaseValue]) -> Bool? {
        if values.isEmpty { return false }
        if value.isNull { return nil }
        if values.contains(where: { RandomTable.compare(value, $0) == 0 }) { return true }
        return values.contains(where: \.isNull) ? nil : false
    }

    private static func membership(_ dice: inout Dice, _ left: Operand) -> Condition {
        let count = dice.pick([0, 1, 2, 5, 64, 65, 100])
        var values = (0..<count).map { _ in RandomTable.value(left.kind, &dice) }
        if count > 1 && dice.once(in: 4) { values[0] = .null }
        return Condition(sql: values.contains(left.sql)) { isAmong(left.value($0), values) }
    }

    private static func range(_ dice: inout Dice, _ left: Operand) -> Condition {
        let low = dice.roll(20) - 15
        let high = low + dice.roll(10)
        func number(_ row: Values) -> Int? { Int.fromDatabaseValue(left.value(row)) }
        if dice.once(in: 2) {
            return Condition(sql: (low...high).contains(left.sql)) { number($0).map { (low...high).contains($0) } }
        }
        return Condition(sql: (low..<high).contains(left.sql)) { number($0).map { (low..<high).contains($0) } }
    }

    private static func likeness(_ dice: inout Dice, _ left: Operand) -> Condition {
        let text = dice.pick(["a", "b", "A", "_", "%", "ab"])
        let (pattern, escape) = dice.pick([("\(text)%", nil), ("%\(text)", nil), ("\\%%", "\\"), ("%\\_", "\\")])
        return Condition(sql: left.sql.like(pattern, escape: escape)) { row in
            String.fromDatabaseValue(left.value(row)).map {
                fits(Array($0.unicodeScalars)[...], Array(pattern.unicodeScalars)[...], isEscaping: escape != nil)
            }
        }
    }

    private static func fits(
        _ text: ArraySlice<Unicode.Scalar>, _ pattern: ArraySlice<Unicode.Scalar>, isEscaping: Bool
    ) -> Bool {
        guard var first = pattern.first else { return text.isEmpty }
        var rest = pattern.dropFirst()
        if isEscaping && first == "\\", let escaped = rest.first {
            (first, rest) = (escaped, rest.dropFirst())
        } else if first == "%" {
            return (text.startIndex...text.endIndex).contains { fits(text[$0...], rest, isEscaping: isEscaping) }
        } else if first == "_" {
            return !text.isEmpty && fits(text.dropFirst(), rest, isEscaping: isEscaping)
        }
        guard let character = text.first, character.asciiFolded == first.asciiFolded else { return false }
        return fits(text.dropFirst(), rest, isEscaping: isEscaping)
    }

    private static func inRows(
        _ dice: inout Dice, _ left: Operand, _ others: [RandomTable], depth: Int
    ) -> Condition {
        guard let other = others.first, depth > 0 else { return membership(&dice, left) }
        let filter = condition(&dice, other, [], depth: 1)
        let rows = other.rows.filter { filter.holds($0) == true }
        let request = Table(other.name).filter(filter.sql)
        guard let position = other.columns.indices.first(where: { other.columns[$0].kind == left.kind }) else {
            return Condition(sql: request.exists()) { _ in !rows.isEmpty }
        }
        let values = rows.map { $0[position] }
        let selected = request.select(Column(other.columns[position].name))
        return Condition(sql: selected.contains(left.sql)) { isAmong(left.value($0), values) }
    }

    // MARK: Operands

    private static func operand(_ dice: inout Dice, _ table: RandomTable, of kind: Kind, depth: Int) -> Operand {
        let positions = table.columns.indices.filter { table.columns[$0].kind == kind }
        if depth > 0 && dice.once(in: 3) {
            let left = operand(&dice, table, of: kind, depth: depth - 1)
            let right = operand(&dice, table, of: kind, depth: depth - 1)
            if dice.once(in: 3) {
                return Operand(kind: kind, sql: left.sql ?? right.sql) { row in
                    left.value(row).isNull ? right.value(row) : left.value(row)
                }
            }
            if kind == .integer { return arithmetic(&dice, left, right, table) }
            if kind == .text { return composition(&dice, left, right) }
        }
        if let position = positions.randomElement(using: &dice), !dice.once(in: 3) {
            return Operand(kind: kind, sql: Column(table.columns[position].name).sqlExpression) { $0[position] }
        }
        let value = RandomTable.value(kind, &dice)
        return Operand(kind: kind, sql: value.sqlExpression) { _ in value }
    }

    private static func arithmetic(
        _ dice: inout Dice, _ left: Operand, _ right: Operand, _ table: RandomTable
    ) -> Operand {
        func combine(_ sql: SQLExpression, _ combined: @escaping (Int, Int) -> Int) -> Operand {
            Operand(kind: .integer, sql: sql) { row in
                guard let left = Int.fromDatabaseValue(left.value(row)),
                    let right = Int.fromDatabaseValue(right.value(row))
                else { return .null }
                return combined(left, right).databaseValue
            }
        }
        switch dice.roll(8) {
        case 0: return combine(left.sql + right.sql, +)
        case 1: return combine(left.sql - right.sql, -)
        case 2: return combine(left.sql * right.sql, *)
        case 3: return combine(max(left.sql, right.sql)) { $0 > $1 ? $0 : $1 }
        case 4: return combine(min(left.sql, right.sql)) { $0 < $1 ? $0 : $1 }
        case 5: return combine(left.sql & right.sql, &)
        case 6:
            let text = operand(&dice, table, of: .text, depth: 0)
            return Operand(kind: .integer, sql: length(text.sql)) { row in
                String.fromDatabaseValue(text.value(row))?.unicodeScalars.count.databaseValue ?? .null
            }
        default:
            return Operand(kind: .integer, sql: abs(left.sql)) { row in
                Int.fromDatabaseValue(left.value(row)).map { ($0 < 0 ? -$0 : $0).databaseValue } ?? .null
            }
        }
    }

    private static func composition(_ dice: inout Dice, _ left: Operand, _ right: Operand) -> Operand {
        if dice.once(in: 2) {
            return Operand(kind: .text, sql: left.sql.uppercased) { row in
                String.fromDatabaseValue(left.value(row))?.uppercased().databaseValue ?? .null
            }
        }
        return Operand(kind: .text, sql: [left.sql, right.sql].joined(operator: .concat)) { row in
            guard let left = String.fromDatabaseValue(left.value(row)),
                let right = String.fromDatabaseValue(right.value(row))
            else { return .null }
            return (left + right).databaseValue
        }
    }
}

extension Unicode.Scalar {
    /// The lower-case letter of an upper-case one of ASCII.
    fileprivate var asciiFolded: Unicode.Scalar {
        ("A"..."Z").contains(self) ? Unicode.Scalar(UInt8(value) + 32) : self
    }
}
