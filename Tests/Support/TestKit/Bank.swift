import Foundation

/// The facts that the bank's workers and their test agree on: accounts, numbers of transfers, files beside the store.
///
/// Each worker has lives; a kill ends one. The transfers of a life have consecutive numbers, and each that was
/// acknowledged adds a byte to the life's file.
public struct Bank: Sendable {
    public static let accounts = 1000
    public static let balance = 1000
    public static let total = accounts * balance
    private static let transfersInLife = 1_000_000
    private static let livesOfWorker = 1_000_000

    let folder: String

    public init(folder: String) { self.folder = folder }

    public static func firstTransfer(worker: Int, life: Int) -> Int {
        (worker * livesOfWorker + life) * transfersInLife
    }

    /// The numbers that the transfers of one life can have.
    public static func transfers(worker: Int, life: Int) -> Range<Int> {
        let first = firstTransfer(worker: worker, life: life)
        return first..<(first + transfersInLife)
    }

    public func acknowledgements(worker: Int, life: Int) -> String { "\(folder)/acknowledged-\(worker)-\(life)" }

    /// How many transfers a life has acknowledged.
    public func acknowledged(worker: Int, life: Int) -> Int {
        Self.length(acknowledgements(worker: worker, life: life))
    }

    /// The faults that workers found: a line each.
    public var reports: [String] {
        let text = (try? String(contentsOfFile: "\(folder)/reports", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init)
    }

    /// Writes down at once what is wrong; the process may be killed right after.
    public func report(_ line: String) {
        let file = open("\(folder)/reports", O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0o600)
        guard file >= 0 else { return }
        let bytes = Array((line.replacingOccurrences(of: "\n", with: " ") + "\n").utf8)
        _ = write(file, bytes, bytes.count)
        close(file)
    }

    /// The length of a file of acknowledgements; 0 when there is none.
    public static func length(_ path: String) -> Int {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return (attributes?[.size] as? Int) ?? 0
    }
}
