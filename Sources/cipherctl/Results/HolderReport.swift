import StorePlatform
import StoreSharing

/// The holders of a store, for people and for programs.
enum HolderReport {
    /// One line for each holder, the first with the heading.
    static func lines(_ holders: StoreHolders) -> [String] {
        holders.enumerated().map { index, holder in (index == 0 ? "holders      " : "             ") + line(holder) }
    }

    private static func line(_ holder: StoreHolder) -> String {
        var parts = ["\(holder)" + (holder.label.map { " \"\($0)\"" } ?? "")]
        parts += holder.uses.map(\.rawValue)
        if let time = holder.writingFor { parts.append("writes for \(CountText.shortSeconds(time, digits: 3))") }
        if let time = holder.waitingFor { parts.append("waits for \(CountText.shortSeconds(time, digits: 3))") }
        if holder.writeCount > 0 {
            parts.append(
                "\(CountText.text(holder.writeCount, "write")), the longest "
                    + CountText.shortSeconds(holder.longestWrite, digits: 3))
        }
        return parts.joined(separator: ", ")
    }

    static func json(_ holders: StoreHolders) -> JSON {
        .array(
            holders.map { holder in
                .object([
                    "pid": .int(holder.process), "identified": .bool(holder.isIdentified),
                    "command": .optional(holder.command, JSON.string),
                    "state": .string(holder.state.rawValue), "label": .optional(holder.label, JSON.string),
                    "since": .optional(holder.openedAt) { .real($0 / .seconds(1)) },
                    "uses": .array(holder.uses.map { .string($0.rawValue) }),
                    "writing_seconds": .optional(holder.writingFor) { .real($0 / .seconds(1)) },
                    "waiting_seconds": .optional(holder.waitingFor) { .real($0 / .seconds(1)) },
                    "writes": .int(holder.writeCount), "write_seconds": .real(holder.writeTime / .seconds(1)),
                    "longest_write_seconds": .real(holder.longestWrite / .seconds(1)),
                    "wait_seconds": .real(holder.waitTime / .seconds(1)),
                ])
            })
    }

}
