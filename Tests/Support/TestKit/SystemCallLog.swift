import Foundation

/// The calls to the system that changed files, as `FaultShim` has written them down, in their order.
public struct SystemCallLog: Sendable {
    /// A call. The inode number identifies a file, and stays when names change.
    public enum Call: Sendable, Equatable {
        case create(file: UInt64, path: String)
        case write(file: UInt64, offset: Int, bytes: Data)
        case truncate(file: UInt64, byteCount: Int)
        /// Of a file, or of a folder, which makes names durable.
        case synchronize(file: UInt64, path: String)
        case rename(path: String, newPath: String)
        case link(path: String, newPath: String)
        case unlink(path: String)
    }

    public let calls: [Call]

    /// Reads a log.
    public init(contentsOf path: String) throws {
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        var calls: [Call] = []
        var position = bytes.startIndex
        while let end = bytes[position...].firstIndex(of: UInt8(ascii: "\n")) {
            let line = String(decoding: bytes[position..<end], as: UTF8.self)
            position = end + 1
            let fields = line.split(separator: " ", maxSplits: 4).map(String.init)
            guard fields.count == 5, let file = UInt64(fields[1]), let offset = Int(fields[2]),
                let count = Int(fields[3])
            else { throw CocoaError(.fileReadCorruptFile) }
            let names = fields[4].split(separator: "\t").map(String.init)
            switch fields[0] {
            case "create": calls.append(.create(file: file, path: fields[4]))
            case "write":
                calls.append(.write(file: file, offset: offset, bytes: bytes[position..<(position + count)]))
                position += count + 1
            case "truncate": calls.append(.truncate(file: file, byteCount: offset))
            case "sync": calls.append(.synchronize(file: file, path: fields[4]))
            case "rename": calls.append(.rename(path: names[0], newPath: names[1]))
            case "link": calls.append(.link(path: names[0], newPath: names[1]))
            case "unlink": calls.append(.unlink(path: fields[4]))
            default: throw CocoaError(.fileReadCorruptFile)
            }
        }
        self.calls = calls
    }
}
