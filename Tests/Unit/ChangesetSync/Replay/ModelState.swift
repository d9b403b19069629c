import Foundation

@testable import ChangesetSync

/// A state as lines of text, so that the model and the engine can be compared.
struct ModelState {
    var lines: Set<String> = []

    init() {}

    // MARK: The model

    init(_ state: TraceLine) {
        for case let row as [Any] in state.list("shown") {
            let cells = (row[2] as? [String: Any] ?? [:]).map { "\($0)=\(Self.text($1))" }
            lines.insert("shown \(row[0]) \(row[1]) \(cells.sorted().joined(separator: " "))")
        }
        for case let row as [Any] in state.list("hidden") {
            let reason = "\(row[2])"
            lines.insert("hidden \(row[0]) \(row[1]) \(reason)")
        }
        for case let row as [Any] in state.list("rows") {
            lines.insert("row \(row[0]) \(row[1]) \(row[2]) \(Self.row(TraceLine(row[3] as? [String: Any] ?? [:])))")
        }
        for case let row as [Any] in state.list("dead") {
            lines.insert("dead \(row[0]) \(row[1]) \(row[2]) owed \(Self.list(row[3]))")
        }
        lines.insert("vector \(Self.list(state.list("vector")))")
        lines.insert("ahead \(state.flag("ahead"))")
        lines.insert("time \(state.integer("time") ?? -1)")
        lines.insert("ready \(Self.list(state.list("ready")))")
    }

    private static func text(_ value: Any) -> String {
        switch value {
        case let text as String: text
        case let number as NSNumber: "#\(number.int64Value)"
        default: "NULL"
        }
    }

    private static func list(_ value: Any) -> String {
        (value as? [Any] ?? []).map { "\($0)" }.sorted().joined(separator: ",")
    }

    private static func stamp(_ value: Any?) -> String {
        (value as? [Any] ?? []).map { "\($0)" }.joined(separator: "/")
    }

    private static func row(_ row: TraceLine) -> String {
        let cells = (row.values["cells"] as? [String: Any] ?? [:]).map { column, cell in
            let cell = cell as? [Any] ?? []
            return "\(column)=\(text(cell[1]))@\(stamp(cell[0]))"
        }
        // Column, origin, branch, last commit, total.
        let sums = row.list("sums").compactMap { $0 as? [Any] }.map { "\($0[0])+\($0[1])+\($0[3])+\($0[4])" }
        return "born \(stamp(row.values["born"])) \(cells.sorted()) \(sums.sorted())"
    }

    // MARK: The engine

    mutating func add(_ inspection: Inspection, paths: [Dot: String]) throws {
        func path(_ dot: Dot) -> String { paths[dot] ?? "\(dot)" }
        func stamp(_ stamp: Stamp) -> String { "\(stamp.era)/\(stamp.time.rawValue)/\(path(stamp.dot))" }
        func place(_ place: Inspection.Place) -> String {
            let key = place.key.map { Replay.text($0, isKey: true) }.joined(separator: ",")
            return "\(place.table) \(key) \(path(place.incarnation))"
        }
        let (living, dead) = try inspection.rows()
        for row in living {
            let cells = row.cells.map { column, cell in
                "\(column.name)=\(Replay.text(cell.value, isKey: column.name == "parent"))@\(stamp(cell.stamp))"
            }
            let sums = row.sums.map { "\($0.column.name)+\(path($0.origin))+\(path($0.last))+\($0.total)" }
            lines.insert("row \(place(row.place)) born \(stamp(row.born)) \(cells.sorted()) \(sums.sorted())")
        }
        for row in dead {
            lines.insert("dead \(place(row.place)) owed \(row.owed.map(path).sorted().joined(separator: ","))")
        }
        for row in try inspection.hidden() {
            let key = row.key.map { Replay.text($0, isKey: true) }.joined(separator: ",")
            lines.insert("hidden \(row.table) \(key) \(Self.reason(row.reason))")
        }
        let vector = try inspection.vector().entries.flatMap { entry in
            entry.tips.map { path(Dot(author: entry.author, number: $0.number, tag: $0.tag)) }
        }
        lines.insert("vector \(vector.sorted().joined(separator: ","))")
        lines.insert("ahead \(try inspection.isAhead())")
        lines.insert("time \(inspection.time.rawValue)")
        lines.insert("ready \(try inspection.ready().map { path($0.dot) }.sorted().joined(separator: ","))")
    }

    /// The first word of the model's reason.
    private static func reason(_ reason: HiddenReason) -> String {
        switch reason {
        case .notNull: "NOT"
        case .check: "CHECK"
        case .unique: "UNIQUE"
        case .foreignKey: "FOREIGN"
        default: "\(reason)"
        }
    }
}
