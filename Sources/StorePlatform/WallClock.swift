#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The time of day, for records that people read. Nothing is ordered or waited for by it.
package enum WallClock {
    /// Whole seconds since 1970, in UTC.
    package static var secondsSince1970: UInt64 { UInt64(millisecondsSince1970 / 1000) }

    /// Milliseconds since 1970, in UTC.
    package static var millisecondsSince1970: Int {
        var now = timespec()
        guard clock_gettime(CLOCK_REALTIME, &now) == 0 else { return 0 }
        return max(0, Int(now.tv_sec)) * 1000 + Int(now.tv_nsec) / 1_000_000
    }
}

extension WallClock {
    /// A time as file names have it: `20261121T223319Z`.
    package static func compactUTC(_ seconds: UInt64) -> String {
        var time = time_t(clamping: seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 32)
        strftime(&text, text.count, "%Y%m%dT%H%M%SZ", &parts)
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
