#if S3
    import StoreBackups

    /// Stores a long object in parts. If it fails, the server removes the parts; those of a killed process are removed by
    /// ``S3ObjectStore/removeUploads(olderThan:)``.
    ///
    /// - SeeAlso: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html>
    struct MultipartUpload {
        private let bytes: [UInt8]
        private let key: String
        private let store: S3ObjectStore

        init(of bytes: [UInt8], to key: String, at store: S3ObjectStore) {
            self.bytes = bytes
            self.key = key
            self.store = store
        }

        /// - Returns: The answer to the completion.
        func run(_ conditions: [String], _ statuses: Set<Int>) throws -> HTTPAnswer {
            let begun = try store.send(.post, key, ["uploads": ""], expecting: [200])
            guard let id = try store.result(begun, "InitiateMultipartUploadResult").text(of: "UploadId") else {
                throw S3Error(.invalidAnswer, store.place, "an upload without a name")
            }
            do {
                return try complete(id, parts: sendParts(id), conditions, statuses)
            } catch {
                // If this fails too, a prune removes the parts.
                _ = try? store.send(.delete, key, ["uploadId": id], expecting: [200, 204, 404])
                throw error
            }
        }

        /// - Returns: The tags of the parts.
        private func sendParts(_ id: String) throws -> [String] {
            try stride(from: 0, to: bytes.count, by: S3Limits.partBytes).enumerated().map { number, start in
                let part = Array(bytes[start..<min(bytes.count, start + S3Limits.partBytes)])
                let answer = try store.send(
                    .put, key, ["partNumber": "\(number + 1)", "uploadId": id], body: part, expecting: [200])
                guard let tag = answer.headers["etag"] else {
                    throw S3Error(.invalidAnswer, store.place, "a part without a tag")
                }
                return tag
            }
        }

        private func complete(
            _ id: String, parts: [String], _ conditions: [String], _ statuses: Set<Int>
        ) throws -> HTTPAnswer {
            let list = parts.enumerated().map { number, tag in
                let tag = tag.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing("\"", with: "&quot;")
                return "<Part><PartNumber>\(number + 1)</PartNumber><ETag>\(tag)</ETag></Part>"
            }
            let body = "<CompleteMultipartUpload>\(list.joined())</CompleteMultipartUpload>"
            let answer = try store.send(
                .post, key, ["uploadId": id], headers: conditions, body: Array(body.utf8),
                expecting: statuses.union([404]))
            switch answer.status {
            case 200:
                // The server answers before it has joined the parts, and may report an error then.
                _ = try store.result(answer, "CompleteMultipartUploadResult")
                return answer
            case 404:
                // An attempt before this one was done, and its answer was lost.
                guard try store.read(String(key.dropFirst(store.prefix.count)), at: 0, byteCount: 1) != nil else {
                    throw S3Error(answer, store.place)
                }
                return HTTPAnswer(status: statuses.contains(412) ? 412 : 200, headers: [:], body: [])
            default:
                _ = try? store.send(.delete, key, ["uploadId": id], expecting: [200, 204, 404])
                return answer
            }
        }
    }
#endif
