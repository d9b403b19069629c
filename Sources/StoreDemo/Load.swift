import CipherStore
import Foundation

/// A process that writes or reads without a pause until it must stop, and remembers its longest wait.
struct Load {
    enum Role: String, CaseIterable {
        case writerA = "writer-a"
        case writerB = "writer-b"
        case readerA = "reader-a"
        case readerB = "reader-b"
    }

    /// Its findings, as one line of text.
    struct Report {
        let operations: Int
        let longest: Duration
        let epoch: UInt64
        let rows: Int

        init(operations: Int, longest: Duration, epoch: UInt64, rows: Int) {
            (self.operations, self.longest, self.epoch, self.rows) = (operations, longest, epoch, rows)
        }

        init(_ line: String) throws {
            let numbers = line.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
            guard numbers.count == 4 else { throw DemoError("a process reported nothing") }
            self.init(
                operations: numbers[0], longest: .microseconds(numbers[1]), epoch: UInt64(numbers[2]), rows: numbers[3])
        }

        var line: String { "\(operations) \(Int(longest / .microseconds(1))) \(epoch) \(rows)" }
    }

    private let role: Role
    private let path: String
    private let key: KeySource
    private let stop: String

    init(_ arguments: ArraySlice<String>) throws {
        let arguments = Array(arguments)
        guard arguments.count == 4, let role = Role(rawValue: arguments[0]) else {
            throw DemoError("usage: StoreDemo --load <role> <store> <key file> <stop file>")
        }
        self.role = role
        path = arguments[1]
        key = .keyFile(path: arguments[2])
        stop = arguments[3]
    }

    func run() throws {
        let store = try SharedStore.open(at: path, unlockedBy: key, migrator: Worker.migrator)
        var (operations, longest, rows) = (0, Duration.zero, 0)
        while !FileManager.default.fileExists(atPath: stop) {
            let start = ContinuousClock.now
            switch role {
            case .writerA, .writerB:
                try store.write { db in
                    try db.execute(
                        sql: "INSERT INTO demo_visit (writer, number) VALUES (?, ?)",
                        arguments: ["during \(role.rawValue)", operations])
                }
                rows += 1
            case .readerA, .readerB:
                let count = try store.read { db in try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM demo_visit") ?? 0 }
                if count < rows { throw DemoError("rows got lost: \(rows) before, \(count) now") }
                rows = count
            }
            longest = max(longest, .now - start)
            operations += 1
            // People can follow the figures, and the four leave the rotation a part of the processor.
            Thread.sleep(forTimeInterval: 0.0005)
        }
        print(Report(operations: operations, longest: longest, epoch: store.epoch, rows: rows).line)
        try store.close()
    }
}
