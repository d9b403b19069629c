import CBaseline
import CipherStore
import Foundation

/// How the processes of a measurement keep out of each other's way.
enum SharingMode: String, CaseIterable {
    /// The library, with its writer queue.
    case queue
    /// The library without it: SQLite's lock, asked for again and again.
    case busy
    /// Plain C with SQLite's own busy handler.
    case c

    var name: String {
        switch self {
        case .queue: "writer queue"
        case .busy: "busy handler"
        case .c: "plain C"
        }
    }
}

/// A process that writes single rows for some time, beside others that do the same.
///
/// It says `ready`, waits for a line, writes, and answers `<transactions> <longest> <99th percentile>`, the times of
/// whole transactions, their waits included, in microseconds.
struct SharingWorker {
    private static let table = "CREATE TABLE IF NOT EXISTS w (id INTEGER PRIMARY KEY, a INTEGER)"
    private static let insert = "INSERT INTO w (a) VALUES (?)"
    private static let key = String(repeating: "2a", count: 32)
    private static let salt = String(repeating: "17", count: 16)

    private let mode: SharingMode
    private let path: String
    private let seconds: Double

    /// - Parameter mode: The mode, the seconds and the path, with commas between.
    init(mode words: String) throws {
        let words = words.split(separator: ",", maxSplits: 2).map(String.init)
        guard words.count == 3, let mode = SharingMode(rawValue: words[0]), let seconds = Double(words[1]) else {
            throw BenchmarkError(description: "--sharing-child MODE,SECONDS,PATH")
        }
        self.mode = mode
        self.seconds = seconds
        path = words[2]
    }

    static func makeStore(at path: String) throws {
        let pool = try pool(at: path, usesWriterQueue: true)
        try pool.write { try $0.execute(sql: table) }
        try pool.close()
    }

    private static func pool(at path: String, usesWriterQueue: Bool) throws -> DatabasePool {
        var config = Configuration()
        config.busyMode = .timeout(30)
        config.usesWriterQueue = usesWriterQueue
        config.persistentWAL = true
        config.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 0x2a, count: 32))
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32; PRAGMA cipher_salt = \"x'\(salt)'\"")
        }
        return try DatabasePool(path: path, configuration: config)
    }

    func run() throws {
        var times = [UInt32](repeating: 0, count: Int(seconds * 100_000))
        let count: Int
        switch mode {
        case .queue, .busy: count = try write(Self.pool(at: path, usesWriterQueue: mode == .queue), &times)
        case .c: count = try writeInC(&times)
        }
        try BenchmarkError.require(count > 0, "no transaction: \(count)")
        let sorted = times[..<count].sorted()
        answer("\(count) \(sorted[count - 1]) \(sorted[count * 99 / 100])")
    }

    private func answer(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    private func waitForStart() {
        answer("ready")
        _ = readLine()
    }

    private func write(_ pool: DatabasePool, _ times: inout [UInt32]) throws -> Int {
        // So that a worker can be run by itself, as under a profiler.
        try pool.write { try $0.execute(sql: Self.table) }
        waitForStart()
        var count = 0
        let end = DispatchTime.now().uptimeNanoseconds + UInt64(seconds * 1e9)
        var now = DispatchTime.now().uptimeNanoseconds
        while now < end && count < times.count {
            try pool.write { db in
                try db.cachedStatement(sql: Self.insert).execute(arguments: [count])
            }
            let later = DispatchTime.now().uptimeNanoseconds
            times[count] = UInt32((later - now) / 1000)
            (count, now) = (count + 1, later)
        }
        return count
    }

    private func writeInC(_ times: inout [UInt32]) throws -> Int {
        let baseline = try Baseline(path: path, keyspec: "x'\(Self.key)\(Self.salt)'")
        waitForStart()
        let capacity = Int64(times.count)
        return times.withUnsafeMutableBufferPointer { buffer in
            Int(baseline_contended_writes(baseline.connection, Self.insert, seconds, buffer.baseAddress, capacity))
        }
    }
}
