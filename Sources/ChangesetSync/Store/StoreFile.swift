import CipherDatabase
import Foundation

/// Tells a copied or restored store by its file, so that its next commit begins a branch: the copy and the original count
/// steps of counters in sums of their own (F16).
///
/// A copy has another file number than the original. A file that was set back in place has the same one, and is only seen when
/// the store meets its own later commits: its steps of counters until then belong to the former branch. A branch too many does no harm.
enum StoreFile {
    static func note(_ work: Work) throws {
        let path = try String.fetchOne(
            work.db, sql: "SELECT file FROM pragma_database_list WHERE name = 'main' AND file <> ''")
        guard let path, let number = number(of: path) else { return }
        let known =
            try work.db.cachedStatement(sql: "SELECT file FROM \(EngineTables.state)")
            .first([]) { $0.optionalInteger(0) } ?? nil
        if known == number { return }
        if known != nil, work.state.tip != nil { work.state.beginsBranch = true }
        try work.db.cachedStatement(sql: "UPDATE \(EngineTables.state) SET file = ?").execute(exact: [.integer(number)])
    }

    private static func number(of path: String) -> Int64? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return (attributes?[.systemFileNumber] as? NSNumber).map { Int64(bitPattern: $0.uint64Value) }
    }
}
