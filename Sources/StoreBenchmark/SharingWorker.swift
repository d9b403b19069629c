import CBaseline
import CipherStore
import Foundation

/// How the processes of a measurement keep out of each other's way.
enum SharingMode: String, CaseIterable {
    /// The object that programs use: a `SharedStore`.
    case store
    /// The library's pool, with its writer queue.
    case queue
    /// The library without it: SQLite's lock, asked for again and again.
    case busy
    /// Plain C with SQLite's own busy handler.
    case c

    var name: String {
        switch self {
        case .store: "SharedStore"
        case .queue: "writer queue"
        case .busy: "busy handler"
        case .c: "plain C"
        }
    }
}

/// A process that writes single rows for some time, beside others that do the same.
///
/// It prints `started`, waits for a line, opens the store, prints `ready`, waits for a line, writes, and prints
/// `<transactions> <longest> <99th percentile>`, the times of whole transactions, their waits included, in microseconds.
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

    /// Makes the store that processes of a mode share.
    static func makeStore(at path: String, _ mode: SharingMode) throws {
        let writer = try open(path, mode)
        try writer.write { try $0.execute(sql: table) }
        try writer.close()
    }

    private static func open(_ path: String, _ mode: SharingMode) throws -> any DatabaseWriter {
        var config = Configuration()
        config.busyMode = .timeout(30)
        if mode == .store {
            let key = KeySource.rawKey([UInt8](repeating: 0x2a, count: 32))
            return try SharedStore.open(at: path, unlockedBy: key, configuration: config)
        }
        config.usesWriterQueue = mode == .queue
        config.persistentWAL = true
        config.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 0x2a, count: 32))
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32; PRAGMA cipher_salt = \"x'\(salt)'\"")
        }
        return try DatabasePool(path: path, configuration: config)
    }

    func run() throws {
        var times = [UInt32](repeating: 0, count: Int(seconds * 100_000))
        waitForStart(after: "started")
        let count: Int
        switch mode {
        case .store, .queue, .busy: count = try write(&times)
        case .c: count = try writeInC(&times)
        }
        try BenchmarkError.require(count > 0, "no transaction: \(count)")
        let sorted = times[..<count].sorted()
        answer("\(count) \(sorted[count - 1]) \(sorted[count * 99 / 100])")
    }

    private func answer(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    private func waitForStart(after state: String) {
        answer(state)
        _ = readLine()
    }

    private func write(_ times: inout [UInt32]) throws -> Int {
        let writer = try Self.open(path, mode)
        // So that a worker can be run by itself, as under a profiler.
        if try writer.read({ try !$0.tableExists("w") }) { try writer.write { try $0.execute(sql: Self.table) } }
        waitForStart(after: "ready")
        var count = 0
        let end = DispatchTime.now().uptimeNanoseconds + UInt64(seconds * 1e9)
        var now = DispatchTime.now().uptimeNanoseconds
        while now < end && count < times.count {
            try writer.write { db in
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
        waitForStart(after: "ready")
        let capacity = Int64(times.count)
        return times.withUnsafeMutableBufferPointer { buffer in
            Int(baseline_contended_writes(baseline.connection, Self.insert, seconds, buffer.baseAddress, capacity))
        }
    }
}
