import CipherStore
import Foundation

/// The conditions of the figures, without any name or path that identifies a machine.
struct Machine {
    let processor: String
    let processorCount: Int
    let system: String
    let sqlite: String
    let cipher: String

    init(_ db: Database) throws {
        processor = Self.value(of: "model name", in: "/proc/cpuinfo", separator: ":") ?? "unknown"
        processorCount = ProcessInfo.processInfo.activeProcessorCount
        system =
            Self.value(of: "PRETTY_NAME", in: "/etc/os-release", separator: "=")
            ?? ProcessInfo.processInfo.operatingSystemVersionString
        sqlite = try String.fetchOne(db, sql: "SELECT sqlite_version()") ?? "unknown"
        cipher = try String.fetchOne(db, sql: "PRAGMA cipher_version") ?? "unknown"
    }

    var description: String {
        "\(processor), \(processorCount) processors; \(system); SQLCipher \(cipher) on SQLite \(sqlite)"
    }

    /// The bytes behind the first line of a file that begins with a key.
    private static func value(of key: String, in file: String, separator: Character) -> String? {
        guard let text = try? String(contentsOfFile: file, encoding: .utf8) else { return nil }
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(key) }),
            let position = line.firstIndex(of: separator)
        else { return nil }
        return line[line.index(after: position)...].trimmingCharacters(in: CharacterSet(charactersIn: " \t\""))
    }
}
