package thumb

import (
	"encoding/binary"
	"image"
)

// orientation returns the tag 0x0112 of the first directory of a TIFF block (TIFF 6.0 §2, Exif 2.32
// §4.6.4), 1 to 8. It returns 1 if the tag is missing or invalid.
func orientation(tiff []byte) int {
	const asIs = 1
	if len(tiff) < 8 {
		return asIs
	}
	var order binary.ByteOrder
	switch string(tiff[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return asIs
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return asIs
	}
	entries := tiff[at+2:]
	for n := int(order.Uint16(tiff[at:])); n > 0 && len(entries) >= 12; n-- {
		const tag, short = 0x0112, 3
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			if v := int(order.Uint16(entries[8:])); v >= 1 && v <= 8 {
				return v
			}
			return asIs
		}
		entries = entries[12:]
	}
	return asIs
}

// upright turns a picture by its EXIF orientation: 2 to 4 mirror it, turn it by 180° or flip it; 5
// to 8 also exchange its sides.
func upright(src *image.RGBA, orientation int) *image.RGBA {
	if orientation <= 1 || orientation > 8 {
		return src
	}
	w, h := src.Rect.Dx(), src.Rect.Dy()
	if orientation >= 5 {
		w, h = h, w
	}
	dst := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			dst.SetRGBA(x, y, src.RGBAAt(from(orientation, x, y, w, h)))
		}
	}
	return dst
}

// from returns where the pixel (x, y) of an upright picture of w by h lies in the stored picture,
// for an EXIF orientation from 1 to 8.
func from(orientation, x, y, w, h int) (int, int) {
	mx, my := w-1-x, h-1-y
	switch orientation {
	case 2:
		return mx, y
	case 3:
		return mx, my
	case 4:
		return x, my
	case 5:
		return y, x
	case 6: // stored lying on its left side: turn clockwise
		return y, mx
	case 7:
		return my, mx
	case 8:
		return my, x
	}
	return x, y
}
