import Foundation

/// The most memory that this process has had since the value was made, as Linux counts it.
struct PeakMemory {
    struct Growth {
        /// In MB, at the beginning.
        let before: Int
        /// In MB, beyond that.
        let more: Double
    }

    private let before: Int

    /// Nil where the system does not say.
    init?() {
        // Sets the peak to what the process has now. https://www.kernel.org/doc/html/latest/filesystems/proc.html
        guard (try? Data("5".utf8).write(to: URL(fileURLWithPath: "/proc/self/clear_refs"))) != nil,
            let now = Self.kilobytes("VmRSS:")
        else { return nil }
        before = now
    }

    var growth: Growth? {
        Self.kilobytes("VmHWM:").map { Growth(before: before / 1024, more: Double($0 - before) / 1024) }
    }

    private static func kilobytes(_ name: String) -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return nil }
        let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }
    }
}

/// The processor time of this process, in seconds.
enum ProcessorTime {
    static var now: Double { Double(clock()) / Double(CLOCKS_PER_SEC) }
}
