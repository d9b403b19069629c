import CipherStore
import Foundation

/// How far a reader of the history has come, as it has written it down: see `WakeUpTests`.
public struct WokenLine: Sendable {
    public let token: HistoryToken
    /// The last row whose insertion it has read.
    public let row: Int64
    /// How many updates it has read.
    public let updates: Int64

    /// The last whole line, and where it ends.
    public static func last(in data: Data) -> (line: WokenLine?, byteCount: Int) {
        guard let end = data.lastIndex(of: 10) else { return (nil, 0) }
        let start = data[..<end].lastIndex(of: 10).map { $0 + 1 } ?? data.startIndex
        let words = String(decoding: data[start..<end], as: UTF8.self).split(separator: " ")
        guard words.count == 3, let token = HistoryToken(String(words[0])), let row = Int64(words[1]),
            let updates = Int64(words[2])
        else { return (nil, 0) }
        return (WokenLine(token: token, row: row, updates: updates), end + 1 - data.startIndex)
    }
}
