extension LockFile {
    /// The processes that hold a lock on a byte, this one included, as far as it may see them.
    ///
    /// The system's table of locks names no process for locks of open files. But what it tells of each descriptor
    /// (`/proc/PID/fdinfo`) shows them, to processes of the same user and to root.
    package func owners(of byte: LockByte) -> [Int32] {
        let openings = ProcessInspector.openings(of: path).filter { opening in
            let info = "/proc/\(opening.process)/fdinfo/\(opening.descriptor)"
            guard let text = try? Files.contents(of: info, limitBytes: Limits.descriptorInfoBytes) else { return false }
            return Self.locks(in: text).contains { $0.contains(byte.rawValue) }
        }
        return Set(openings.map(\.process)).sorted()
    }

    /// The ranges that a descriptor has locked: `lock:  1: OFDLCK ADVISORY  WRITE -1 08:01:131099 16 16`.
    static func locks(in info: [UInt8]) -> [ClosedRange<Int64>] {
        info.split(separator: UInt8(ascii: "\n")).compactMap { line in
            let fields = String(decoding: line, as: UTF8.self).split { $0 == " " || $0 == "\t" }
            guard fields.count == 9, fields[0] == "lock:", fields[2] == "OFDLCK", let first = Int64(fields[7]),
                let last = fields[8] == "EOF" ? Int64.max : Int64(fields[8]), first <= last
            else { return nil }
            return first...last
        }
    }

    /// Another process that holds a byte; nil when the system does not show it.
    package func otherOwner(of byte: LockByte) -> StoreHolder? {
        owners(of: byte).first { $0 != ProcessInspector.currentProcess }.map { StoreHolder(process: $0, uses: []) }
    }

    /// Who holds a byte, to begin a sentence: `Process 4711 (importer, stopped)`.
    package func nameOwner(of byte: LockByte) -> String {
        let owners = owners(of: byte)
        guard let other = owners.first(where: { $0 != ProcessInspector.currentProcess }) else {
            return owners.isEmpty ? "Another process or thread" : "Another thread of this process"
        }
        let name = "\(StoreHolder(process: other, uses: []))"
        return name.prefix(1).uppercased() + name.dropFirst()
    }
}
