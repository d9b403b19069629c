#if PostgreSQL
    import CPostgreSQL

    /// One statement with its values, and what its answer may be at most.
    ///
    /// Each is a transaction of its own, and nothing stays on the server: no prepared statement, no setting. So a pooler may
    /// send every one to another connection.
    struct Statement: Sendable {
        let sql: String
        let values: [Value]
        /// Columns of the answer; 0 where there is none.
        let columns: Int
        let mostRows: Int
        /// Bytes of all values of the answer.
        let valueBytes: Int

        init(_ sql: String, _ values: [Value] = [], columns: Int = 0, mostRows: Int = 0, valueBytes: Int = 0) {
            self.sql = sql
            self.values = values
            self.columns = columns
            self.mostRows = mostRows
            self.valueBytes = valueBytes
        }

        /// A value in the binary format of PostgreSQL.
        enum Value: Sendable {
            case bytes([UInt8])
            /// ASCII: the same bytes in every encoding of a server.
            case text(String)
            case integer(Int64)
            case byteList([[UInt8]])
            case integerList([Int64])

            /// <https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat>
            var type: Oid {
                switch self {
                case .bytes: 17
                case .integer: 20
                case .text: 25
                case .byteList: 1001
                case .integerList: 1016
                }
            }

            func append(to output: inout [UInt8]) {
                switch self {
                case .bytes(let bytes): output += bytes
                case .text(let text): output += text.utf8
                case .integer(let number): Self.append(number, to: &output)
                case .byteList(let list):
                    Self.appendHeader(count: list.count, element: 17, to: &output)
                    for bytes in list {
                        Self.append(Int32(bytes.count), to: &output)
                        output += bytes
                    }
                case .integerList(let list):
                    Self.appendHeader(count: list.count, element: 20, to: &output)
                    for number in list {
                        Self.append(Int32(8), to: &output)
                        Self.append(number, to: &output)
                    }
                }
            }

            /// One dimension that begins at 1, without NULL; an empty list has no dimension.
            private static func appendHeader(count: Int, element: Int32, to output: inout [UInt8]) {
                append(Int32(count == 0 ? 0 : 1), to: &output)
                append(Int32(0), to: &output)
                append(element, to: &output)
                guard count > 0 else { return }
                append(Int32(count), to: &output)
                append(Int32(1), to: &output)
            }

            private static func append(_ number: some FixedWidthInteger, to output: inout [UInt8]) {
                withUnsafeBytes(of: number.bigEndian) { output.append(contentsOf: $0) }
            }
        }

        /// Sends it; libpq copies what it has to keep.
        ///
        /// - Returns: Whether libpq has taken it.
        func send(to connection: OpaquePointer) -> Bool {
            var content: [UInt8] = []
            var ends: [Int] = []
            for value in values {
                value.append(to: &content)
                // The pointer of an empty value must not be NULL, which would be the value NULL.
                content.append(0)
                ends.append(content.count)
            }
            let starts = [0] + ends.dropLast()
            let lengths = zip(starts, ends).map { Int32($1 - $0 - 1) }
            return content.withUnsafeBufferPointer { content in
                let pointers = starts.map { start in
                    content.baseAddress.map { UnsafeRawPointer($0 + start).assumingMemoryBound(to: CChar.self) }
                }
                return PQsendQueryParams(
                    connection, sql, Int32(values.count), values.map(\.type), pointers, lengths,
                    [Int32](repeating: 1, count: values.count), 1) == 1
            }
        }
    }

    /// The rows that a server has returned. Nothing in them is trusted: each value is checked when it is read.
    struct Answer: Sendable {
        private let remote: String
        private let columns: Int
        private let mostRows: Int
        private let mostBytes: Int
        private var content: [UInt8] = []
        /// The place of each value in `content`, row by row; a negative length is NULL.
        private var cells: [(start: Int, byteCount: Int)] = []
        private(set) var rowCount = 0

        init(to statement: Statement, _ remote: String) {
            self.remote = remote
            columns = statement.columns
            mostRows = statement.mostRows
            mostBytes = statement.valueBytes + PostgreSQLLimits.answerOverheadBytes
        }

        /// Adds the rows of a result.
        ///
        /// - Throws: ``PostgreSQLError`` `invalidAnswer` unless it has the columns of the statement, and not more rows and
        ///   bytes than there can be.
        mutating func add(_ result: OpaquePointer) throws(PostgreSQLError) {
            let (found, rows) = (Int(PQnfields(result)), Int(PQntuples(result)))
            guard found == columns else { throw unexpected("\(found) columns") }
            for column in 0..<columns where PQfformat(result, Int32(column)) != 1 {
                throw unexpected("column \(column) is a text")
            }
            rowCount += rows
            guard rowCount <= mostRows else { throw unexpected("more than \(mostRows) rows") }
            for row in 0..<Int32(rows) {
                for column in 0..<Int32(columns) {
                    guard PQgetisnull(result, row, column) == 0, let value = PQgetvalue(result, row, column) else {
                        cells.append((content.count, -1))
                        continue
                    }
                    let byteCount = Int(PQgetlength(result, row, column))
                    guard content.count + byteCount <= mostBytes else {
                        throw unexpected("more than \(mostBytes) bytes")
                    }
                    cells.append((content.count, byteCount))
                    content += UnsafeRawBufferPointer(start: value, count: byteCount)
                }
            }
        }

        func unexpected(_ reason: String) -> PostgreSQLError { PostgreSQLError(.invalidAnswer, remote, reason) }

        /// The bytes of a value; nil for NULL.
        func bytes(_ row: Int, _ column: Int) -> ArraySlice<UInt8>? {
            let cell = cells[row * columns + column]
            return cell.byteCount < 0 ? nil : content[cell.start..<(cell.start + cell.byteCount)]
        }

        /// A number of 32 or 64 bits.
        func integer(_ row: Int, _ column: Int) throws(PostgreSQLError) -> Int64 {
            let value = bytes(row, column) ?? []
            switch value.count {
            case 4: return Int64(Int32(truncatingIfNeeded: value.reduce(0) { $0 << 8 | Int64($1) }))
            case 8: return value.reduce(0) { $0 << 8 | Int64($1) }
            default: throw unexpected("no number in row \(row), column \(column)")
            }
        }
    }
#endif
