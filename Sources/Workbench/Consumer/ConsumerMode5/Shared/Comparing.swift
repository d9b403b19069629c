import CipherStore

// Conditions that must compile, each of them quickly: the manifest sets a limit. None of this is run.

/// Columns as static constants.
struct Pupil: Codable, FetchableRecord, PersistableRecord {
    enum Columns {
        static let id = Column("id")
        static let name = Column("name")
        static let score = Column("score")
        static let best = Column("best")
        static let team = Column("team")
    }
    static let marks = hasMany(Mark.self)
    var id: Int64
    var name: String
    var score: Int
    var best: Int
    var team: String?
}

/// Columns as the cases of an enum.
struct Mark: Codable, FetchableRecord, PersistableRecord {
    enum Columns: String, ColumnExpression { case pupilId, subject, mark, weight }
    static let pupil = belongsTo(Pupil.self)
    var pupilId: Int64
    var subject: String
    var mark: Int
    var weight: Int?
}

func compareColumns(_ least: Int, _ team: String?, _ flag: Bool) {
    _ = Pupil.filter { $0.score > 1 && $0.score < 10 && $0.id != 3 }
    _ = Pupil.filter { $0.name == "a" || $0.name == "b" || $0.name == "c" }
    _ = Pupil.filter { $0.name == "a" && $0.team != nil && $0.score > 10 }
    _ = Pupil.filter { $0.name == "a" && $0.team == team && $0.score >= least && $0.best > $0.score && $0.id != 3 }
    _ = Pupil.filter { ($0.score == least && $0.best < least) || ($0.id != 3 && !($0.name == "x")) || $0.team == nil }
    _ = Pupil.filter {
        $0.score == 1 && $0.score < 2 && $0.id != 3 && $0.name == "x" && $0.team == nil && $0.best > 4
            && $0.best <= least && $0.team != team
    }
    _ = Pupil.filter { $0.score == $0.best && $0.best == $0.id && $0.id == 1 }
    _ = Pupil.filter { [1, 2, 3].contains($0.id) && $0.score > least && (1...9).contains($0.best) }
    _ = Pupil.filter { [$0.score == 1, $0.id == 2, $0.score == least].joined(operator: .and) }
    _ = Pupil.filter { $0.score + $0.best > least && $0.score * 2 < 100 && $0.name.like("a%") }
    _ = Pupil.filter { flag && $0.score == 1 && $0.best == 2 }
    _ = Pupil.filter(Column("score") == 1 && Column("best") == 2 && Column("id") == 3 && Column("name") == "x")
    _ = Pupil.filter(Pupil.Columns.score > 1 && Pupil.Columns.best > Pupil.Columns.score && Pupil.Columns.team == nil)
    _ = Mark.filter { $0.mark == $0.weight && $0.weight == $0.pupilId && $0.pupilId == 1 }
    _ = Mark.filter { $0.mark > 1 && $0.mark < $0.weight && $0.subject == "art" && $0.weight != nil && $0.pupilId > 7 }
    _ = Mark.filter(Mark.Columns.mark == Mark.Columns.weight && Mark.Columns.mark > 3 || Mark.Columns.subject == "art")
    _ = Pupil.filter { ($0.score, $0.best) != ($0.best, $0.id) && $0.id > 1 && $0.name == "x" && $0.team != team }
    _ = Mark.filter { ($0.mark, $0.weight) == ($0.weight, $0.mark) && $0.mark > 1 && [$0.mark] == [$0.weight] }
    _ = Pupil.select(Database.jsonObject(["name": Column("name"), "twice": Column("best") * 2, "j": JSONColumn("j")]))
    _ = Mark.all().filter { $0.mark > 1 && $0.mark < 6 && $0.subject == "art" }
    _ = Table<Mark>("mark").filter { $0.mark > 1 && $0.mark < 6 && $0.subject == "art" }
}

func compareElsewhere(_ db: Database, _ least: Int) throws {
    let (pupil, mark) = (TableAlias<Pupil>(), TableAlias<Mark>())
    try db.create(table: "limits") { table in
        table.column("low").check { $0 > 0 && $0 < 10 && $0 != 5 }
        table.check(Column("low") > 0 && Column("low") < 10 && Column("low") != 5)
    }
    let isGood: SQLExpression = Pupil.Columns.score > 1 && Pupil.Columns.best > 2 && Pupil.Columns.id != 3
    _ = Mark.select { [$0.subject, $0.mark] }.group { $0.subject }
        .having { sum($0.mark) > 1 && sum($0.mark) < 100 && max($0.weight) != nil }
    _ = Mark.select { $0.subject }.group { $0.subject }.having(sum(Column("mark")) > 1 && count(Column("mark")) < 9)
    _ = Mark.all().filterWhenConnected { _ in Column("mark") > 1 && Column("mark") < 6 && Column("weight") != nil }
    _ = Pupil.annotated { ($0.score > 1 && $0.best > 2 && $0.id != 3).forKey("isGood") }
    _ = Pupil.select { [$0.id, ($0.score + $0.best * 2 - 1).forKey("sum")] }
    _ = Pupil.order { ($0.score > 1 && $0.best > 2 && $0.id != 3).desc }
    _ = Pupil.order { [$0.score.desc, ($0.score + $0.best + 1).asc] }
    _ = Pupil.aliased(pupil).filter { _ in pupil.score > 1 && pupil.best > pupil.score && pupil.team == nil }
    _ = Pupil.aliased(pupil).joining(
        required: Pupil.marks.aliased(mark).filter { $0.mark > 1 && $0.mark < 6 && pupil.score > mark[.rowID] })
    _ = Mark.aliased(mark).filter(mark[Column("mark")] > 1 && mark[.rowID] < 6 && mark[Column("weight")] != nil)
    _ = Mark.aliased(mark).filter { mark[$0.mark] > 1 && mark[$0.weight] < 6 && mark[$0.subject] == "art" }
    _ = Pupil.aliased(pupil).select(pupil.name, pupil.score + pupil.best).order(pupil.score.desc, pupil.best)
    _ = Mark.joining(required: Mark.pupil.filter { $0.score > 1 && $0.best == 2 && $0.name == "x" })
    _ = Pupil.association(to: CommonTableExpression<Mark>(named: "m", request: Mark.all())) { pupil, mark in
        pupil.score == mark[Column("mark")] && pupil.team == mark[Column("pupilId")] && pupil.best > 2
    }
    _ = Pupil.having(Pupil.marks.count > 1 && Pupil.marks.count < 9)
    _ = Pupil.annotated(with: Pupil.marks.sum { $0.mark * 2 + $0.pupilId - 1 })
    _ = Pupil.filter(isGood)
    _ = Pupil.filter(literal: "\(Column("score") > 1 && Column("best") > 2 && Column("id") != 3)")
}

func changeColumns(_ db: Database) throws {
    try Pupil.filter { $0.score > 1 && $0.score < 10 && $0.best != 3 }.updateAll(db) {
        [$0.score.set(to: $0.score + $0.best * 2 - 1), $0.best.set(to: $0.best > 1 && $0.best < 3 && $0.score != 4)]
    }
    try Mark.filter { $0.mark > 1 && $0.mark < 6 && $0.subject != "art" }.deleteAll(db)
}
