import CipherStore
import Foundation
import KeyRotation
import Synchronization

/// `make bench-rotation`: changes the key of stores of several sizes while processes write and read without a pause.
struct LiveRotationBenchmark {
    let megabytes: [Int]
    private static let writers = 4
    private static let readers = 2

    func run() throws {
        BenchmarkTable.printHead([
            "size", "whole rotation", "copy", "rounds", "pause", "write before", "longest write", "in phase",
            "longest read", "accesses", "failed",
        ])
        for size in megabytes { try measure(size) }
    }

    private func measure(_ size: Int) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("rotation-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("app.db").path
        let stop = folder.appendingPathComponent("stop").path
        let store = try RotationWorker.makeStore(at: path, megabytes: size)
        let workers = try (0..<Self.writers + Self.readers).map { number in
            try BenchmarkWorker("--rotation-child", "\(number < Self.writers ? "write" : "read"),\(stop),\(path)")
        }
        for worker in workers { try BenchmarkError.require(worker.line() == "ready", "a worker did not start") }
        for worker in workers { worker.start() }
        // The same load without a rotation: what the machine alone makes of the longest write.
        Thread.sleep(forTimeInterval: min(30, max(5, Double(size) / 50)))
        let phases = Mutex<[(phase: RotationProgress.Phase, begin: UInt64)]>([])
        let clock = ContinuousClock()
        let (start, begin) = (clock.now, DispatchTime.now().uptimeNanoseconds)
        let report = try KeyRotation(store).run { progress in
            phases.withLock { phases in
                guard phases.last?.phase != progress.phase else { return }
                phases.append((progress.phase, DispatchTime.now().uptimeNanoseconds))
            }
        }
        let time = clock.now - start
        try Data().write(to: URL(fileURLWithPath: stop))
        let answers = try workers.map { worker in
            let figures = (worker.line() ?? "").split(separator: " ").compactMap { Double($0) }
            try BenchmarkError.require(figures.count >= 4 && figures.count % 2 == 0, "a worker failed")
            return figures
        }
        let (writes, reads) = (answers.prefix(Self.writers), answers.dropFirst(Self.writers))
        let slow = SlowWrites(Array(writes), rotationBegin: begin)
        let phase = slow.longest.map { slow in
            phases.withLock { $0.last { $0.begin <= slow.begin }?.phase.rawValue ?? "" }
        }
        let kept = try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM live") ?? 0 }
        let written = Int(writes.map { $0[3] }.reduce(0, +))
        try BenchmarkError.require(kept == written, "\(written) rows were written, \(kept) are there")
        try store.close()
        BenchmarkTable.printRow([
            "\(size) MB", String(format: "%.1f s", time / .seconds(1)),
            String(format: "%.0f MB/s", Double(report.copyBytesPerSecond) / 1e6), "\(report.rounds)",
            String(format: "%.1f ms", report.longestPause / .milliseconds(1)),
            slow.before.map { String(format: "%.1f ms", $0 / 1000) } ?? "under 10 ms",
            slow.longest.map { String(format: "%.1f ms", $0.length / 1000) } ?? "under 10 ms", phase ?? "",
            String(format: "%.1f ms", (reads.map { $0[1] }.max() ?? 0) / 1000),
            String(format: "%.0f", answers.map { $0[0] }.reduce(0, +)),
            String(format: "%.0f", answers.map { $0[2] }.reduce(0, +)),
        ])
    }
}

/// The writes of more than 10 ms that the workers report.
private struct SlowWrites {
    /// The longest of those that began during the rotation: its begin, and its length in microseconds.
    let longest: (begin: UInt64, length: Double)?
    /// The longest of those that began before, in microseconds.
    let before: Double?

    init(_ answers: [[Double]], rotationBegin: UInt64) {
        let slow = answers.flatMap { figures in
            stride(from: 4, to: figures.count, by: 2).map { (begin: UInt64(figures[$0]), length: figures[$0 + 1]) }
        }
        longest = slow.filter { $0.begin >= rotationBegin }.max { $0.length < $1.length }
        before = slow.filter { $0.begin < rotationBegin }.map(\.length).max()
    }
}

/// A process that writes or reads until a file appears, and answers `<operations> <longest> <failed> <rows written>`, the
/// longest in microseconds; then begin and length of each write of more than 10 ms, in nanoseconds of the machine's clock
/// and in microseconds.
struct RotationWorker {
    private static let key = [UInt8](repeating: 0x2a, count: 32)

    private let writes: Bool
    private let stop: String
    private let path: String

    /// - Parameter words: What it does, the file that ends it and the store, with commas between.
    init(_ words: String) throws {
        let words = words.split(separator: ",", maxSplits: 2).map(String.init)
        guard words.count == 3 else { throw BenchmarkError(description: "--rotation-child write|read,STOP,PATH") }
        (writes, stop, path) = (words[0] == "write", words[1], words[2])
    }

    /// A store of about this size, of rows that compress and sort badly.
    static func makeStore(at path: String, megabytes: Int) throws -> SharedStore {
        let store = try open(path)
        try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE live (id INTEGER PRIMARY KEY, a INTEGER);
                    CREATE TABLE bulk (id INTEGER PRIMARY KEY, b);
                    """)
        }
        for start in stride(from: 0, to: megabytes, by: 16) {
            try store.write { db in
                let insert = try db.cachedStatement(sql: "INSERT INTO bulk (b) VALUES (randomblob(3900))")
                for _ in 0..<min(16, megabytes - start) * 256 { try insert.execute() }
            }
        }
        try store.checkpoint(.passive)
        return store
    }

    private static func open(_ path: String) throws -> SharedStore {
        try SharedStore.open(at: path, unlockedBy: .rawKey(key))
    }

    func run() throws {
        let store = try Self.open(path)
        answer("ready")
        _ = readLine()
        var (operations, failed, rows) = (0, 0, 0)
        var longest: UInt64 = 0
        var slow = ""
        while !FileManager.default.fileExists(atPath: stop) {
            let start = DispatchTime.now().uptimeNanoseconds
            do {
                if writes {
                    try store.write { try $0.execute(sql: "INSERT INTO live (a) VALUES (?)", arguments: [operations]) }
                    rows += 1
                } else {
                    _ = try store.read { db in
                        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM (SELECT id FROM bulk LIMIT 500)")
                    }
                }
            } catch {
                failed += 1
                FileHandle.standardError.write(Data("a \(writes ? "write" : "read") failed: \(error)\n".utf8))
            }
            let length = DispatchTime.now().uptimeNanoseconds - start
            longest = max(longest, length)
            if writes && length > 10_000_000 { slow += " \(start) \(length / 1000)" }
            operations += 1
            Thread.sleep(forTimeInterval: 0.001)
        }
        answer("\(operations) \(longest / 1000) \(failed) \(rows)\(slow)")
        try store.close()
    }

    private func answer(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }
}
