/// The name that a user may have meant.
package enum NearName {
    /// The name that differs from what was typed by two letters at most; nil where none does.
    package static func find(_ typed: String, among names: [String]) -> String? {
        let found = names.map { (name: $0, changes: changes(from: typed, to: $0)) }
        return found.filter { $0.changes <= 2 && $0.changes * 2 < $0.name.count }.min { $0.changes < $1.changes }?.name
    }

    /// How many letters must be inserted, removed or replaced to make one text of another.
    package static func changes(from one: String, to other: String) -> Int {
        let other = Array(other)
        var row = Array(0...other.count)
        for (index, letter) in one.prefix(40).enumerated() {
            let former = row
            row[0] = index + 1
            for (place, wanted) in other.enumerated() {
                row[place + 1] = min(former[place + 1] + 1, row[place] + 1, former[place] + (letter == wanted ? 0 : 1))
            }
        }
        return row[other.count]
    }
}
